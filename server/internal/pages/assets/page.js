// Shows the times of pages in the zone of the browser, and takes a time in it. Without this script they are in UTC, as the pages say.
const formats = {
  full: { day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" },
  month: { month: "long", year: "numeric" },
  weekday: { weekday: "short" },
  day: { day: "numeric" },
  hour: { hour: "2-digit", minute: "2-digit", timeZoneName: "short" },
};
for (const [name, format] of Object.entries(formats)) formats[name] = new Intl.DateTimeFormat("en-GB", format);
const inWords = (time, part = time.dataset.show ?? "full") => formats[part].format(new Date(time.dateTime));
for (const time of document.querySelectorAll("time")) time.textContent = inWords(time);

// Near midnight an event is of another month than in UTC.
for (const list of document.querySelectorAll(".months:has(li)")) {
  const rows = list.querySelectorAll("li");
  const [heading, group] = list.children;
  const months = Map.groupBy(rows, (row) => inWords(row.querySelector("time"), "month"));
  list.replaceChildren(...[...months].flatMap(([month, rows]) => {
    const [ofMonth, events] = [heading.cloneNode(true), group.cloneNode()];
    ofMonth.firstChild.textContent = month;
    events.append(...rows);
    return [ofMonth, events];
  }));
}

for (const button of navigator.clipboard ? document.querySelectorAll("[data-copies]") : []) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
    button.textContent = "Copied";
  });
}

const input = document.querySelector("input[name=scheduledAt]");
const sent = input?.value; // in UTC, perhaps with seconds
if (input?.type === "datetime-local" && sent) {
  const two = (number) => String(number).padStart(2, "0");
  const date = new Date(`${sent}Z`);
  const day = [String(date.getFullYear()).padStart(4, "0"), two(date.getMonth() + 1), two(date.getDate())].join("-");
  input.value = `${day}T${two(date.getHours())}:${two(date.getMinutes())}${sent.slice("2006-01-02T15:04".length)}`;
  document.getElementById("zone").textContent = formats.full.resolvedOptions().timeZone;

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
