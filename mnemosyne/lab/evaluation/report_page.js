"use strict";
// Draws the charts of a session: at first of the one that the page names, then of the one that the reader chooses.
const WIDTH = 960, HEIGHT = 320, LEFT = 56, RIGHT = 12, TOP = 22, BOTTOM = 36, EPOCH_LABEL_GAP = 16;
const LAYERS = ["fixed", "L0", "L1", "L2", "L3"];

const px = value => String(Math.floor(value * 10 + 0.5) / 10);
const across = (turn, turns) =>
  LEFT + (turn - turns[0]) / Math.max(1, turns[turns.length - 1] - turns[0]) * (WIDTH - LEFT - RIGHT);
const up = (value, top) => HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
const places = (xs, ys, turns, top) => xs.map((x, i) => px(across(x, turns)) + " " + px(up(ys[i], top)));
const escaped = text => text.replace(/[&<>"']/g, sign =>
  ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})[sign]);

function countText(count) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (count >= size) return Math.floor(count / size * 10 + 0.5) / 10 + unit;
  return String(count);
}

function ticks(top) {
  let step = 1;
  while (top / step > 5) step = String(step)[0] === "2" ? step * 5 / 2 : step * 2;
  const found = [];
  for (let value = 0; value <= Math.floor(top); value += step) found.push(value);
  return found;
}

function frame(turns, top) {
  const parts = [];
  for (const value of ticks(top)) {
    const y = px(up(value, top));
    parts.push('<line class="grid" x1="' + LEFT + '" x2="' + (WIDTH - RIGHT) + '" y1="' + y + '" y2="' + y + '"/>');
    parts.push('<text class="up" x="' + (LEFT - 6) + '" y="' + y + '">' + countText(value) + "</text>");
  }
  for (const value of [turns[0], ...ticks(turns[turns.length - 1]).filter(tick => tick > turns[0])]) {
    const x = px(across(value, turns));
    parts.push('<text class="across" x="' + x + '" y="' + (HEIGHT - BOTTOM + 16) + '">' + value + "</text>");
  }
  parts.push('<text class="name" x="' + (WIDTH - RIGHT) + '" y="' + (HEIGHT - 4) + '">turn</text>');
  return parts.join("");
}

const nothing = sentence =>
  '<text class="across" x="' + WIDTH / 2 + '" y="' + HEIGHT / 2 + '">' + sentence + "</text>";

function contextChart(series) {
  const turns = series.turn;
  if (!turns.length) return nothing("No turns were recorded.");
  const edges = [turns.map(() => 0)];
  for (const layer of LAYERS) edges.push(edges[edges.length - 1].map((below, i) => below + series[layer][i]));
  const top = Math.max(...edges[LAYERS.length], ...series.unmanaged, 1);
  const parts = [frame(turns, top)];
  LAYERS.forEach((layer, i) => {
    const there = places(turns, edges[i + 1], turns, top), back = places(turns, edges[i], turns, top).reverse();
    parts.push('<path class="area ' + layer + '" d="M' + [...there, ...back].join("L") + 'Z"/>');
  });
  parts.push('<path class="line unmanaged" d="M' + places(turns, series.unmanaged, turns, top).join("L") + '"/>');
  let last = -Infinity;
  series.epochs.forEach((epoch, i) => {
    const x = across(epoch[0], turns), at = px(x);
    parts.push('<line class="epoch" x1="' + at + '" x2="' + at + '" y1="' + TOP + '" y2="' + (HEIGHT - BOTTOM) + '"/>');
    if (x - last >= EPOCH_LABEL_GAP) {
      parts.push('<text class="epoch" x="' + at + '" y="' + (TOP - 6) + '">' + (i + 1) + "</text>");
      last = x;
    }
  });
  return parts.join("");
}

function moneyChart(series) {
  const turns = series.turn;
  if (!turns.length) return nothing("No turns were recorded.");
  const top = Math.max(...series.billed, ...series.shadow, 1), base = HEIGHT - BOTTOM;
  const parts = [frame(turns, top)];
  for (const line of ["shadow", "billed"])
    parts.push('<path class="line ' + line + '" d="M' + places(turns, series[line], turns, top).join("L") + '"/>');
  for (const [turn, , price, , paid] of series.epochs) {
    const x = px(across(turn, turns)), y = px(Math.min(up(Math.max(0, price), top), base - 2));
    const end = px(paid === null ? WIDTH - RIGHT : across(turn + paid, turns));
    parts.push('<line class="price" x1="' + x + '" x2="' + x + '" y1="' + base + '" y2="' + y + '"/>');
    parts.push('<line class="' + (paid === null ? "unpaid" : "paid") + '" x1="' + x + '" x2="' + end + '" y1="' + y +
      '" y2="' + y + '"/>');
    if (paid !== null) parts.push('<circle class="paid" cx="' + end + '" cy="' + y + '" r="3"/>');
  }
  return parts.join("");
}

const turnsText = count => count === null ? "–" : count + (count === 1 ? " turn" : " turns");

function epochRows(series) {
  return series.epochs.map(([turn, reason, price, expected, paid], i) =>
    "<tr><td>" + (i + 1) + "</td><td>" + turn + "</td><td class=\"text\">" + escaped(reason) + "</td><td>" +
    countText(price) + "</td><td>" + turnsText(expected) + "</td><td>" +
    (paid === null ? "not in this session" : turnsText(paid)) + "</td></tr>").join("");
}

function unpooled(data, policy, session) {
  const series = {...data.sessions[policy][session]};
  for (const name of ["turn", ...LAYERS, "unmanaged", "billed", "shadow"]) series[name] = data.lists[series[name]];
  return series;
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = id => document.getElementById(id);
  const policies = by("choose-policy"), sessions = by("choose-session"), values = by("values");
  let shown;

  function fillSessions(wanted) {
    const there = data.sessions[policies.value] || [];
    sessions.replaceChildren(...there.map((session, i) =>
      new Option(session.name + " (" + turnsText(session.turns) + ", " + session.ratio.toFixed(3) + ")", i)));
    const found = there.findIndex(session => session.name === wanted);
    sessions.value = String(Math.max(0, found));
  }

  function show() {
    if (!sessions.options.length) {
      shown = null;
      for (const id of ["context", "money"]) by(id).innerHTML = nothing("No session was evaluated.");
      return;
    }
    shown = unpooled(data, policies.value, sessions.value);
    by("context").innerHTML = contextChart(shown);
    by("money").innerHTML = moneyChart(shown);
    by("epoch-rows").innerHTML = epochRows(shown);
    const words = shown.name + " under " + data.policies[policies.value];
    by("shown").textContent = words + ", " + turnsText(shown.turns) + ", billed " + shown.ratio.toFixed(3);
    by("context").setAttribute("aria-label", "Context by fidelity over turns: " + words);
    by("money").setAttribute("aria-label", "Bill so far with and without management: " + words);
    values.textContent = "Point at a chart to read a turn.";
  }

  function read(event) {
    if (!shown || !shown.turn.length) return;
    const svg = event.currentTarget, box = svg.getBoundingClientRect(), turns = shown.turn;
    const x = (event.clientX - box.left) / box.width * WIDTH;
    let near = 0;
    turns.forEach((turn, i) => {
      if (Math.abs(across(turn, turns) - x) < Math.abs(across(turns[near], turns) - x)) near = i;
    });
    for (const id of ["context", "money"]) {
      by(id).querySelectorAll(".here").forEach(line => line.remove());
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      const at = px(across(turns[near], turns));
      const where = {class: "here", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM};
      for (const name in where) line.setAttribute(name, where[name]);
      by(id).append(line);
    }
    values.textContent = "Turn " + turns[near] + ": " +
      LAYERS.map(layer => layer + " " + countText(shown[layer][near])).join(", ") +
      "; unmanaged " + countText(shown.unmanaged[near]) + " tokens. Billed so far " + countText(shown.billed[near]) +
      ", unmanaged " + countText(shown.shadow[near]) + ".";
  }

  function sortBy(header) {
    const table = header.closest("table"), body = table.tBodies[0], column = header.cellIndex;
    const down = header.getAttribute("aria-sort") !== "descending";
    table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const order = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b);
    body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
  }

  data.policies.forEach((name, i) => policies.append(new Option(name, i)));
  const first = by("session").dataset;
  policies.value = first.policy;
  fillSessions(null);
  sessions.value = first.session;
  policies.addEventListener("change", () => { fillSessions(shown && shown.name); show(); });
  sessions.addEventListener("change", show);
  for (const id of ["context", "money"]) by(id).addEventListener("pointermove", read);
  document.querySelectorAll("table.sortable th button").forEach(button =>
    button.addEventListener("click", () => sortBy(button.closest("th"))));
  by("ratios").addEventListener("click", event => {
    const cell = event.target.closest("td[data-policy]");
    if (!cell) return;
    policies.value = cell.dataset.policy;
    fillSessions(null);
    sessions.value = cell.dataset.session;
    show();
    by("session").scrollIntoView();
  });
  document.querySelectorAll(".script-only").forEach(part => { part.hidden = false; });
  show();
}

if (typeof document !== "undefined") start();
