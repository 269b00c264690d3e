// The page: which screen the address names, links without reload, live updates, search, theme, export.

import { ask, follow, setToken, whenBehind } from "./api.js";
import { h, path } from "./dom.js";
import { saveScreen } from "./export.js";
import { clusterScreen } from "./cluster.js";
import { nodeScreen } from "./node.js";
import { queueScreen, whyScreen } from "./why.js";
import { gangScreen, gangsScreen } from "./gang.js";
import { whatIfScreen } from "./what_if.js";
import { setUpSearch } from "./search.js";
import { simulationScreen } from "./simulation.js";

const SCREENS = [
  [/^\/$/, clusterScreen, "Cluster"],
  [/^\/node\/([^/]+)$/, nodeScreen, "Node"],
  [/^\/why$/, queueScreen, "Why"],
  [/^\/why\/([^/]+)\/([^/]+)\/([^/]+)$/, whyScreen, "Why"],
  [/^\/gangs$/, gangsScreen, "Gangs"],
  [/^\/gang\/([^/]+)\/([^/]+)$/, gangScreen, "Gangs"],
  [/^\/what-if$/, whatIfScreen, "What if"],
  [/^\/simulation$/, simulationScreen, "Simulation"],
];
const LINKS = [
  ["/", "Cluster"],
  ["/gangs", "Gangs"],
  ["/why", "Why"],
  ["/what-if", "What if"],
];
// What does not move by itself.
const STILL = ["dump", "finished"];
const SIMULATION = ["/simulation", "Simulation"];
// At most one update in this many milliseconds, however often the cluster changes.
const BETWEEN_UPDATES = 1000;

const main = document.getElementById("main");
const live = document.getElementById("live");
const trouble = document.getElementById("trouble");
let screen = null;
let simulated = false;
let shown = 0;

export function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"]({}, "", address);
  if (!replace) show();
}

function current() {
  return (
    SCREENS.map(([pattern, open, title]) => [pattern.exec(location.pathname), open, title]).find(
      ([parts]) => parts,
    ) ?? [null, null, "Not found"]
  );
}

const currentTitle = () => current()[2];

// The names in an address; null if it was cut in the middle of a letter.
function decoded([, ...names]) {
  try {
    return names.map(decodeURIComponent);
  } catch {
    return null;
  }
}

async function show() {
  const number = ++shown;
  const [parts, open, title] = current();
  const names = decoded(parts ?? []);
  markCurrent(title);
  document.title = [...(names ?? []), title, "bayplan"].join(" · ");
  if (!open || !names) {
    screen = null;
    return main.replaceChildren(message("There is no such page.", "Start from the cluster."));
  }
  const made = open({ main, go, parts: names });
  screen = made;
  main.replaceChildren(made.element);
  main.dataset.ready = "no";
  await update(made, number);
  window.scrollTo(0, 0);
}

async function update(made, number = shown) {
  try {
    const focused = main.contains(document.activeElement) ? document.activeElement : null;
    await made.update();
    // What was drawn anew keeps the focus.
    if (focused && !focused.isConnected)
      [...main.querySelectorAll(focused.localName)]
        .find((each) => each.textContent === focused.textContent)
        ?.focus({ preventScroll: true });
    if (number === shown) main.dataset.ready = "yes";
  } catch (error) {
    if (number !== shown) return;
    if (error.status === 401) main.replaceChildren(signIn(error.message));
    else if (error.status) made.element.replaceChildren(message(error.message));
    else tell(error.message);
  }
}

function message(text, more = "") {
  return h(
    "section.card.message",
    {},
    h("h1", {}, text),
    more ? h("p", {}, more) : null,
    h("p", {}, h("a", { href: "/" }, "Cluster")),
  );
}

function signIn(why) {
  const input = h("input", { type: "password", id: "token", required: true, autocomplete: "off" });
  const submit = (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    follow(changed, lost);
    show();
  };
  return h(
    "form.card.message",
    { onsubmit: submit },
    h("h1", {}, "Sign in"),
    h("p", {}, why),
    h("label.field", { for: "token" }, h("span", {}, "Bearer token"), input),
    h("button", {}, "Show the cluster"),
    h("p.quiet", {}, "kubectl create token SERVICEACCOUNT prints one. It stays in this tab."),
  );
}

function markCurrent(title) {
  document
    .querySelector("nav")
    .replaceChildren(
      ...(simulated ? [SIMULATION, ...LINKS] : LINKS).map(([href, text]) =>
        h(
          "a",
          { href, "aria-current": text === title || (title === "Node" && text === "Cluster") ? "page" : null },
          text,
        ),
      ),
    );
}

let due = null;
let last = 0;

function changed(news) {
  tell(news.trouble);
  live.textContent = news.trouble ? "stale" : (news.standing ?? "");
  live.className = `live ${news.trouble ? "lost" : STILL.includes(news.standing) ? "still" : ""}`;
  simulated = news.source === "simulation";
  if (simulated !== Boolean(document.querySelector("nav a[href='/simulation']"))) markCurrent(currentTitle());
  live.title = news.takenAt ? `state of ${new Date(news.takenAt * 1000).toLocaleTimeString()}` : "";
  main.dataset.generation = news.generation;
  updateSoon(0);
}

function updateSoon(seconds) {
  if (!screen || due) return;
  due = setTimeout(
    () => {
      due = null;
      last = Date.now();
      if (screen.element.isConnected) update(screen);
      else show();
    },
    Math.max(1000 * seconds, last + BETWEEN_UPDATES - Date.now()),
  );
}

function lost(error) {
  live.textContent = "offline";
  live.className = "live lost";
  if (error.status !== 401) tell(error.message);
}

function tell(text) {
  trouble.hidden = !text;
  trouble.textContent = text ?? "";
}

function setUpTheme() {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
  document.getElementById("theme").addEventListener("click", () => {
    const dark =
      document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.documentElement.dataset.theme = dark === "dark" ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
    screen?.redraw?.();
  });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (
    !link ||
    event.defaultPrevented ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    link.hasAttribute("download")
  )
    return;
  const address = new URL(link.href);
  if (address.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(address.pathname + address.search);
});
const help = document.getElementById("help");
const KEYS = { "/": () => document.getElementById("search").focus(), "?": () => help.showModal() };
document.addEventListener("keydown", (event) => {
  if (!(event.key in KEYS) || help.open || document.activeElement.matches("input:not([type=range]), textarea, select")) return;
  event.preventDefault();
  KEYS[event.key]();
});
document.getElementById("keys").addEventListener("click", KEYS["?"]);
window.addEventListener("popstate", show);
document.getElementById("export").addEventListener("click", () => saveScreen(main));
setUpTheme();
setUpSearch(ask, (result) => go(addressOf(result)));
whenBehind(updateSoon);
show();
follow(changed, lost);

function addressOf(result) {
  if (result.type === "node") return path("node", result.name);
  if (result.type === "domain")
    return `/?${new URLSearchParams({ topology: result.topology, in: result.path.join("/") })}`;
  if (result.type === "gang") return path("gang", result.namespace, result.name);
  return path("why", result.namespace, result.type === "workload" ? result.kind : "pod", result.name);
}
