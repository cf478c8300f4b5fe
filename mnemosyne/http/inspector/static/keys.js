// What the keys do, from the moment on at which anything of the page is seen: its rest may come seconds later.
"use strict";

// Previous and next turn by keyboard: p and n, or the arrows.
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, .chart, pre") || event.ctrlKey || event.metaKey || event.altKey) return;
  const wanted = { n: "next", ArrowRight: "next", p: "prev", ArrowLeft: "prev" }[event.key];
  const link = wanted && document.querySelector("a[rel=" + wanted + "]");
  if (link) link.click();
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) { search.focus(); event.preventDefault(); }
  }
});
