// Shows a world's events and who comes, live. Open it as ?world=plaza, and with &api=https://… for a service elsewhere.
import {
  connect, createEvent, getSession, joinEvent, leaveEvent, listEvents, sessionOf, signInUrl, signOut,
} from "../client/index.js";

const query = new URLSearchParams(location.search);
const world = query.get("world") ?? "plaza";
const api = query.get("api") ?? "";
const interval = Number(query.get("poll") ?? 3000);
const element = (id) => document.getElementById(id);

let user; // who is signed in
let shown; // the ETag of the list on the screen

connect({ baseUrl: api, onSignInNeeded: () => showUser(undefined) });
element("world").textContent = world;
element("sign-in").href = signInUrl(api ? location.href : location.pathname + location.search);
element("sign-out").onclick = () => work("Signing out", async () => {
  await signOut();
  showUser(undefined);
});
element("create").onsubmit = (submitted) => {
  submitted.preventDefault();
  const form = new FormData(submitted.target);
  work("Creating", async () => {
    const when = new Date(form.get("scheduledAt")).toISOString();
    const body = { name: form.get("name"), description: form.get("description"), scheduledAt: when };
    succeed(await createEvent({ path: { id: world }, body }));
    submitted.target.reset();
    await refreshList();
  });
};

await work("Loading", async () => {
  const session = await getSession();
  showUser(session.data && sessionOf(session).username);
  if (user) await refreshList();
});
setInterval(() => user && !document.hidden && work("", refreshList), interval);

/** Does something for the user to see: what is going on, and what went wrong. */
async function work(what, act) {
  if (what) element("status").textContent = `${what}…`;
  try {
    await act();
    if (what || !element("fault").dataset.of) element("fault").hidden = true; // a poll ends only its own fault
    element("status").textContent = user ? `Up to date at ${new Date().toLocaleTimeString()}` : "Sign in to see the events.";
  } catch (error) {
    element("status").textContent = "";
    element("fault").textContent = error.message;
    element("fault").dataset.of = what;
    element("fault").hidden = false;
  }
}

/** The data of a result, or its error as people read it. */
function succeed({ data, error }) {
  if (data) return data;
  const fields = Object.entries(error.fields ?? {}).map(([name, fault]) => `\n${name} ${fault}`);
  throw new Error((error.detail ?? error.error) + fields.join(""));
}

function showUser(name) {
  user = name;
  element("who").textContent = name ? `Signed in as ${name}` : "Not signed in";
  element("sign-in").hidden = !!name;
  element("sign-out").hidden = element("create").hidden = !name;
  if (!name) element("events").replaceChildren();
  shown = undefined;
}

/** The browser asks with the ETag it has; while nothing has changed it gets 304, and hands us what it had. */
async function refreshList() {
  const result = await listEvents({ path: { id: world } });
  const { events } = succeed(result);
  const etag = result.response.headers.get("ETag");
  if (etag && etag === shown) return;
  element("events").replaceChildren(...events.map(card));
  shown = etag;
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
      return work(what, async () => {
        succeed(await operation({ path: { id: event.id } }));
        await refreshList();
      }).finally(() => (click.target.disabled = false));
    };
  };
  bind(".join", "Joining", joinEvent, !names.includes(user));
  bind(".leave", "Leaving", leaveEvent, names.includes(user));
  return card;
}
