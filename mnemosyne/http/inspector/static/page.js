// Page behaviour: follow the log, show times in the reader's time zone, and make the map interactive. Pages show all
// their content without this script.
"use strict";

const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

function showTimes(within) {
  for (const each of within.querySelectorAll("time[datetime]")) {
    const text = zone.format(new Date(each.dateTime));
    if ("ago" in each.dataset) {
      each.title = text;
      continue;
    }
    each.title = each.dateTime;
    each.textContent = text;
  }
}

// Everything that may change is inside #fresh; it is fetched again after each event and after a reconnect.
function follow(sessions) {
  const address = "/-/events" + (sessions === "*" ? "" : "?session=" + encodeURIComponent(sessions));
  let connected = true;
  let asked = false;
  let again = false;
  async function refresh() {
    if (asked) {
      again = true;
      return;
    }
    asked = true;
    do {
      again = false;
      await show();
    } while (again);
    asked = false;
  }
  async function show() {
    try {
      const reply = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => {
        throw new Error("The server does not answer.");
      });
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const fresh = page.getElementById("fresh");
      const old = document.getElementById("fresh");
      if (!reply.ok) throw new Error(page.querySelector("main p").textContent);
      if (fresh && old) {
        for (const open of old.querySelectorAll("details[open] > summary")) keepOpen(fresh, open);
        old.replaceWith(fresh);
        htmx.process(fresh);
        prepare(fresh);
        say("Live");
        document.dispatchEvent(new CustomEvent("refreshed"));
      }
    } catch (error) {
      say(error.message + " Trying again.");
      setTimeout(refresh, RETRY);
    }
  }
  function listen() {
    const events = new EventSource(address);
    events.addEventListener("open", () => {
      say("Live");
      if (!connected) refresh();
      connected = true;
    });
    events.addEventListener("changed", refresh);
    events.addEventListener("error", async () => {
      connected = false;
      if (events.readyState !== EventSource.CLOSED) {
        say("Not connected; trying again.");
        return;
      }
      say(await askWhy(address) + " Trying again.");  // the browser does not reconnect after an error status
      setTimeout(listen, RETRY);
    });
  }
  listen();
}

const RETRY = 2000;

function say(text) {
  document.getElementById("live").textContent = text;
}

// The server's error message for an address.
async function askWhy(address) {
  try {
    const reply = await fetch(address, { headers: { Accept: "application/json" } });
    if (!reply.ok) return (await reply.json()).error;
    reply.body.cancel();
    return "Not connected.";
  } catch (error) {
    return "The server does not answer.";
  }
}

function keepOpen(fresh, summary) {
  for (const each of fresh.querySelectorAll("details > summary")) {
    if (each.textContent === summary.textContent) each.parentElement.open = true;
  }
}

// Charts: + and - zoom the focused chart, arrows scroll it.
function zoom(chart) {
  const svg = chart.querySelector("svg");
  if (!svg || chart.dataset.ready) return;
  chart.dataset.ready = "yes";
  chart.setAttribute("role", "group");
  chart.setAttribute("aria-label", svg.getAttribute("aria-label") + ". Plus and minus zoom, arrow keys move.");
  let times = 1;
  chart.addEventListener("keydown", (event) => {
    const steps = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 };
    if (event.key in steps && !event.ctrlKey && !event.metaKey) {
      times = Math.min(Math.max(times * steps[event.key], 1), 40);
      const middle = (chart.scrollLeft + chart.clientWidth / 2) / svg.clientWidth;
      svg.style.height = svg.clientHeight + "px";
      svg.style.width = 100 * times + "%";
      svg.setAttribute("preserveAspectRatio", "none");
      chart.scrollLeft = middle * svg.clientWidth - chart.clientWidth / 2;
      event.preventDefault();
    }
  });
}

// The map: a band is a link to its object; a click beside the bands opens the turn's request.
function lead(chart) {
  const svg = chart.querySelector("svg");
  svg.addEventListener("click", (event) => {
    if (event.target.closest("a")) return;
    const [branch, turn] = turnAt(svg, event.clientX);
    if (turn) location.href = chart.dataset.map + "/turn/" + turn + "?branch=" + encodeURIComponent(branch);
  });
}

// Return the branch and turn at a position; each window of the map has its bounds and turns in data attributes.
function turnAt(svg, x) {
  const box = svg.getBoundingClientRect();
  const at = (x - box.left) / box.width * svg.viewBox.baseVal.width;
  for (const { dataset: held } of svg.querySelectorAll("g[data-branch]")) {
    const share = (at - held.left) / (held.right - held.left);
    if (share >= 0 && share < 1) return [held.branch, Number(held.first) + Math.floor(share * (held.last - held.first))];
  }
  return [null, null];
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-compare]");
  if (!form) return;
  event.preventDefault();
  const other = form.querySelector("input");
  location.href = form.dataset.compare + encodeURIComponent(other.value) + "/to/" + encodeURIComponent(other.dataset.after)
    + "?branch=" + encodeURIComponent(other.dataset.branch);
});

// The slider next to a turn's number; a change shows the turn at once.
function slide(form) {
  const [number, slider] = form.querySelectorAll("input:not([type=hidden])");
  slider.hidden = false;
  form.querySelector("button").hidden = true;
  slider.addEventListener("input", () => { number.value = slider.value; });
  number.addEventListener("input", () => { slider.value = number.value; });
}

function prepare(within) {
  showTimes(within);
  for (const form of within.querySelectorAll("form.turns")) slide(form);
  for (const chart of within.querySelectorAll(".chart")) zoom(chart);
  for (const chart of within.querySelectorAll("[data-map]")) lead(chart);
}

prepare(document);
const marked = location.hash && document.getElementById(location.hash.slice(1));
if (marked && marked.matches(".block")) {
  marked.querySelector("details").open = true;
  marked.scrollIntoView();
}
document.addEventListener("htmx:after:swap", () => prepare(document));
if (document.body.dataset.live) follow(document.body.dataset.live);
if (document.body.dataset.again) setTimeout(() => location.reload(), 1000 * Number(document.body.dataset.again));
