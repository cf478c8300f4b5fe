"use strict";
// Sorts a table by the heading that is clicked; all else of the page is there without a script.
function sortBy(header) {
  const table = header.closest("table"), body = table.tBodies[0], column = header.cellIndex;
  const down = header.getAttribute("aria-sort") !== "descending";
  table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const order = (a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b)) : key(a) - key(b);
  body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
}

document.querySelectorAll("table.sortable th button").forEach(button =>
  button.addEventListener("click", () => sortBy(button.closest("th"))));
