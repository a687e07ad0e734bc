// Shows a world's events and who comes, live. Open it as ?world=plaza, and with &api=https://… for a service elsewhere.
import {
  connect, createEvent, getSession, joinEvent, leaveEvent, onSessionChange, sessionOf, signInUrl, signOut, watchEvents,
} from "../client/index.js";

const query = new URLSearchParams(location.search);
const world = query.get("world") ?? "plaza";
const api = query.get("api") ?? "";
const element = (id) => document.getElementById(id);

let user; // who is signed in
let stopWatching = () => {};

connect({ baseUrl: api, onSignInNeeded: () => showUser(undefined) });
onSessionChange((session) => showUser(session?.username));
element("world").textContent = world;
element("sign-in").href = signInUrl(api ? location.href : location.pathname + location.search);
element("sign-out").onclick = () => work("Signing out", signOut);
element("create").onsubmit = (submitted) => {
  submitted.preventDefault();
  const form = new FormData(submitted.target);
  work("Creating", async () => {
    const when = new Date(form.get("scheduledAt")).toISOString();
    const body = { name: form.get("name"), description: form.get("description"), scheduledAt: when };
    await createEvent({ path: { id: world }, body, throwOnError: true });
    submitted.target.reset();
  });
};

await work("Loading", async () => {
  const session = await getSession();
  showUser(session.data && sessionOf(session).username);
});

/** Does something for the user to see: what is going on, and what went wrong. */
async function work(what, act) {
  element("status").textContent = `${what}…`;
  try {
    await act();
    element("fault").hidden = true;
    element("status").textContent = user ? "" : "Sign in to see the events.";
  } catch (error) {
    showError(error);
  }
}

function showError(error) {
  const fields = Object.entries(error.fields ?? {}).map(([name, problem]) => `\n${name} ${problem}`);
  element("status").textContent = "";
  element("fault").textContent = error.message + fields.join("");
  element("fault").hidden = false;
}

/** Shows who is signed in, and watches the list as that user. */
function showUser(name) {
  stopWatching();
  user = name;
  element("who").textContent = name ? `Signed in as ${name}` : "Not signed in";
  element("sign-in").hidden = !!name;
  element("sign-out").hidden = element("create").hidden = !name;
  element("live").textContent = "";
  if (!name) return element("events").replaceChildren();
  stopWatching = watchEvents({ path: { id: world } }, {
    onList({ events }) {
      element("events").replaceChildren(...events.map(card));
      element("status").textContent = `Up to date at ${new Date().toLocaleTimeString()}`;
    },
    onStatus({ status, since, error }) {
      const words = { live: "Live", connecting: "Connecting", offline: "Offline, trying again", ended: "No longer live" };
      element("live").textContent = `${words[status]} since ${since.toLocaleTimeString()}`;
      if (error) showError(error);
      else if (status === "live") element("fault").hidden = true;
    },
  });
}

function card(event) {
  const card = element("event").content.cloneNode(true);
  const find = (selector) => card.querySelector(selector);
  const names = event.RSVPs.map((rsvp) => rsvp.user.username);
  find("article").id = event.id;
  find("h2").textContent = event.name;
  find("time").dateTime = event.scheduledAt;
  find("time").textContent = new Date(event.scheduledAt).toLocaleString();
  find(".description").textContent = event.description;
  find(".names").replaceChildren(...names.map((name) => {
    const item = document.createElement("li");
    item.textContent = name;
    item.className = name === user ? "me" : "";
    return item;
  }));
  const bind = (selector, what, operation, visible) => {
    find(selector).hidden = !visible;
    find(selector).onclick = (click) => {
      click.target.disabled = true;
      const act = () => operation({ path: { id: event.id }, throwOnError: true });
      return work(what, act).finally(() => (click.target.disabled = false));
    };
  };
  bind(".join", "Joining", joinEvent, !names.includes(user));
  bind(".leave", "Leaving", leaveEvent, names.includes(user));
  return card;
}
