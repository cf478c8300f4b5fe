// What the keys do, from the moment on at which anything of the page is seen: its rest may come seconds later.
"use strict";

// Previous and next turn by keyboard: p and n, or the arrows.
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, .chart, pre") || event.ctrlKey || event.metaKey || event.altKey) return;
  const wanted = { n: "next", ArrowRight: "next", p: "prev", ArrowLeft: "prev" }[event.key];
  const link = wanted && document.querySelector("a[rel=" + wanted + "]");
  if (link) link.click();
  if (event.key === "j" || event.key === "k") jump(event.key === "j");
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) { search.focus(); event.preventDefault(); }
  }
});

// Next and previous prompt of a conversation: j and k. Beyond the shown prompts, the next or previous part opens.
function jump(forward) {
  const stops = [...document.querySelectorAll("[data-stop]")];
  const ahead = stops.filter((stop) => stop.getBoundingClientRect().top > 12);
  const behind = stops.filter((stop) => stop.getBoundingClientRect().top < 4);
  const stop = forward ? ahead[0] : behind[behind.length - 1];
  const link = document.querySelector("a[rel=" + (forward ? "next" : "prev") + "]");
  if (stop) {
    stop.scrollIntoView();
    stop.focus({ preventScroll: true });
  } else if (link && stops.length) link.click();
}
