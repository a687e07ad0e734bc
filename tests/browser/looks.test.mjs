// How the pages look, where a test can tell: no word and no button has a line of a telephone to itself, whoever uses the keyboard sees
// where they are, and nothing moves for those who want no motion.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { fetchWithCookies, startService } from "./service.mjs";

let browser;
before(async () => (browser = await startChromium()));
after(() => browser?.close());

/** Calls `look(tab, page)` on each page, with nobody signed in and with somebody who has two sessions, made an event and joined another. */
async function onAllPages(t, options, look) {
  const service = await startService({ SESSIONS_PER_USER: "2", OIDC_ISSUER: "http://localhost:1", OIDC_CLIENT_ID: "x" });
  t.after(service.stop);
  const context = await openWindow(browser, options);
  t.after(() => context.close());
  const tab = await context.newPage();
  const [alice, bob] = [fetchWithCookies(await service.issue("alice")), fetchWithCookies(await service.issue("bob"))];
  const [own, theirs] = [await service.create(alice, "plaza"), await service.create(bob, "plaza", { name: "Chess" })];
  await alice(`${service.address}/api/event/join/${theirs}`, { method: "POST" });
  const all = async (who, ...more) => {
    for (const page of ["sign-in", "sign-in/callback?state=x&code=x", "nothing", "sign-out", "sessions", "events", ...more, "docs"]) {
      await tab.goto(`${service.address}/${page}`);
      if (page === "docs") await tab.locator(".opblock").first().waitFor();
      await look(tab, `${page}, ${who}`);
    }
  };
  await all("nobody");
  await context.addCookies(cookiesOf(await service.issue("alice"), service.address));
  await all("alice", `events/edit?id=${own}`, `events/cancel?id=${own}`);
}

test("no word and no button is alone on a line at 390 px", (t) => onAllPages(t, { viewport: { width: 390, height: 844 } }, async (tab, page) => {
  assert.deepEqual(await tab.evaluate(whatIsAlone), [], page);
}));

/** In the page: texts with a line of one word among others, and buttons beside which there is nothing although they do not fill the line. */
function whatIsAlone() {
  const own = (selector) => [...document.querySelectorAll(selector)].filter((element) => element.checkVisibility() && !element.closest("#swagger-ui"));
  const found = [];
  for (const block of own("h1, h2, h3, h4, p, dd, label, .intro li, header span, button, .button")) {
    const range = document.createRange();
    const texts = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    const lines = []; // of each its bottom, and how many words it has
    while (texts.nextNode()) {
      for (const { index, 0: word } of texts.currentNode.data.matchAll(/\S*[\p{L}\p{N}]\S*/gu)) {
        range.setStart(texts.currentNode, index);
        range.setEnd(texts.currentNode, index + word.length);
        const { top, bottom } = range.getBoundingClientRect();
        if (!lines.length || top > lines.at(-1).bottom - 4) lines.push({ bottom, words: 0 });
        lines.at(-1).words++;
      }
    }
    if (lines.length > 1 && lines.some(({ words }) => words === 1)) found.push(block.innerText);
  }
  const seen = own("h1, h2, h3, h4, p, dt, strong, span, a, button, input");
  for (const button of own("button, .button")) {
    const { top, bottom, width } = button.getBoundingClientRect();
    const beside = seen.some((other) => {
      const box = other.getBoundingClientRect();
      return !button.contains(other) && box.width > 0 && box.top < bottom && box.bottom > top;
    });
    if (!beside && width < innerWidth / 2) found.push(button.innerText);
  }
  return found;
}

for (const colorScheme of ["light", "dark"]) {
  test(`who uses the keyboard sees where they are, in the ${colorScheme}`, (t) => onAllPages(t, { colorScheme }, async (tab, page) => {
    for (let i = 0; i < 12; i++) {
      await tab.keyboard.press("Tab");
      const [what, outline] = await tab.evaluate(() => {
        const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
        return [document.activeElement.outerHTML.slice(0, 80), [outlineStyle, outlineWidth]];
      });
      if (!what.startsWith("<body")) assert.deepEqual(outline, ["solid", "3px"], `${page}: ${what}`);
    }
  }));
}

test("nothing moves for those who want no motion", (t) => onAllPages(t, { reducedMotion: "reduce" }, async (tab, page) => {
  const durations = await tab.evaluate(() => [...document.querySelectorAll("*")].flatMap((element) => {
    const { transitionDuration, animationName, animationDuration } = getComputedStyle(element);
    return [...transitionDuration.split(", "), animationName === "none" ? "0s" : animationDuration];
  }));
  assert.ok(durations.every((duration) => duration === "0s"), page);
}));

test("what moves for the others is what they point at, and nothing when a page loads", (t) => onAllPages(t, { reducedMotion: "no-preference" }, async (tab, page) => {
  const [moves, plays] = await tab.evaluate(() => [...document.querySelectorAll("*")].filter((element) => !element.closest("#swagger-ui")).reduce((found, element) => {
    const { transitionDuration, animationName } = getComputedStyle(element);
    return [found[0] || transitionDuration !== "0s", found[1] || animationName !== "none"];
  }, [false, false]));
  assert.deepEqual([moves, plays], [page !== "docs, nobody", false], page);
}));
