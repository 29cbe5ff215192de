// Updates the figures of the page in place, once a second, and charts the last minute.
"use strict";

const KEPT = 60;
const history = [];
const cells = [...document.querySelectorAll("[data-key]")];
const state = document.getElementById("state");
const grouped = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

const charts = [
  { label: "requests/s", value: (a, b, s) => (b.totals.requests - a.totals.requests) / s },
  { label: "bytes/s", value: (a, b, s) => (b.totals["bytes-sent"] - a.totals["bytes-sent"]) / s },
  { label: "p99, µs", value: (a, b) => recent(a, b, 0.99) },
  { label: "open connections", value: (a, b) => b.connections },
].map((chart) => {
  const figure = document.createElement("figure");
  figure.innerHTML = "<figcaption></figcaption><b>–</b><svg viewBox='0 0 59 20' preserveAspectRatio='none' " +
    "role='img'><polyline/></svg>";
  figure.firstChild.textContent = chart.label;
  figure.querySelector("svg").setAttribute("aria-label", chart.label + " over the last minute");
  document.getElementById("charts").append(figure);
  return { ...chart, figure, values: [] };
});

// A quantile of the response times between two readings, in microseconds.
function recent(a, b, share) {
  const counts = b["latency-cumulative"].map(([bound, n], i) => [bound, n - a["latency-cumulative"][i][1]]);
  const all = counts[counts.length - 1][1];
  if (all === 0) return 0;
  return counts.find(([, n]) => n >= all * share)[0];
}

function at(object, path) {
  return path.split(".").reduce((inner, key, i, keys) => {
    if (inner == null) return inner;
    // A name may contain a dot, as p99.9 does.
    const rest = keys.slice(i).join(".");
    return key in inner ? inner[key] : inner[rest];
  }, object);
}

function show(now) {
  const before = history[history.length - 1];
  const seconds = before ? (now["at-ms"] - before["at-ms"]) / 1000 : 0;
  for (const cell of cells) {
    const value = cell.dataset.key.startsWith("latency-us.") ? now["latency-us"][cell.dataset.key.slice(11)] : at(now, cell.dataset.key);
    if (value == null) continue;
    cell.parentElement.hidden = false;
    cell.textContent = typeof value === "number" ? grouped.format(value) : value;
    if ("rate" in cell.dataset && before && seconds > 0) {
      const rate = (value - at(before, cell.dataset.key)) / seconds;
      cell.nextElementSibling.textContent = short.format(rate) + "/s";
    }
  }
  if (before && seconds > 0) {
    for (const chart of charts) {
      chart.values.push(chart.value(before, now, seconds));
      if (chart.values.length > KEPT) chart.values.shift();
      const top = Math.max(...chart.values, 1e-9);
      const from = KEPT - chart.values.length;
      const points = chart.values.map((v, i) => `${from + i},${19 - (18 * v) / top}`);
      chart.figure.querySelector("polyline").setAttribute("points", points.join(" "));
      chart.figure.querySelector("b").textContent = short.format(chart.values[chart.values.length - 1]);
    }
  }
  history.push(now);
  if (history.length > 2) history.shift();
}

async function renew() {
  try {
    const answer = await fetch("live.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
    state.textContent = "Updated every second.";
  } catch (error) {
    state.textContent = `No response from the server (${error.message}); showing the last figures.`;
  }
  setTimeout(renew, document.hidden ? 5000 : 1000);
}
renew();
