// Shows the times of /events in the zone of the browser, and takes a time in it. Without this script they are in UTC, as the page says.
const inWords = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
});
for (const time of document.querySelectorAll("time")) time.textContent = inWords.format(new Date(time.dateTime));

const input = document.querySelector("input[name=scheduledAt]");
const sent = input?.value; // in UTC, perhaps with seconds
if (input?.type === "datetime-local" && sent) {
  const two = (number) => String(number).padStart(2, "0");
  const date = new Date(`${sent}Z`);
  const day = [String(date.getFullYear()).padStart(4, "0"), two(date.getMonth() + 1), two(date.getDate())].join("-");
  input.value = `${day}T${two(date.getHours())}:${two(date.getMinutes())}${sent.slice("2006-01-02T15:04".length)}`;
  document.getElementById("zone").textContent = inWords.resolvedOptions().timeZone;

  // A time that the user has left alone goes back as it came. Where clocks are put back an hour has two of each: the one with the offset of the event counts.
  const shown = input.value;
  const offset = date.getTimezoneOffset();
  input.form.addEventListener("formdata", ({ formData }) => {
    const kept = new Date(Date.parse(`${input.value}Z`) + offset * 60_000);
    const typed = kept.getTimezoneOffset() === offset ? kept : new Date(input.value);
    if (input.value === shown) formData.set(input.name, sent);
    else if (typed.getUTCFullYear() <= 9999) formData.set(input.name, typed.toISOString().slice(0, input.value.length));
  });
}
