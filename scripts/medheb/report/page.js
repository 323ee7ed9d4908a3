"use strict";
// Sorting, filtering, and opening what a link points at. The page is complete without it.

function columnOf(heading) {
  let column = 0;
  for (let cell = heading.previousElementSibling; cell; cell = cell.previousElementSibling) column += cell.colSpan;
  return column;
}

function keyOf(row, column, numeric) {
  const cell = row.cells[column];
  const key = cell.dataset.v ?? cell.textContent.trim();
  if (!numeric) return key;
  return key === "" ? null : Number(key);
}

function sortBy(heading) {
  const body = heading.closest("table").tBodies[0];
  const numeric = heading.dataset.kind === "number";
  const before = heading.getAttribute("aria-sort");
  const descending = before ? before === "ascending" : numeric && heading.dataset.first !== "ascending";
  const column = columnOf(heading);
  for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const rows = Array.from(body.rows, (row) => ({ row, key: keyOf(row, column, numeric) }));
  const sign = descending ? -1 : 1;
  rows.sort((a, b) => {
    if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
    return sign * (numeric ? a.key - b.key : a.key.localeCompare(b.key, "en", { numeric: true }));
  });
  body.append(...rows.map((entry) => entry.row));
}

for (const button of document.querySelectorAll("table.sortable th button")) {
  button.addEventListener("click", () => sortBy(button.parentElement));
}

for (const field of document.querySelectorAll("input[data-filter]")) {
  const table = document.getElementById(field.dataset.filter);
  const shown = document.querySelector(`output[data-count="${field.dataset.filter}"]`);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      left += row.hidden ? 0 : 1;
    }
    shown.textContent = words.length ? `${left} of ${table.tBodies[0].rows.length} rows` : "";
  });
}

for (const button of document.querySelectorAll("button[data-details]")) {
  button.addEventListener("click", () => {
    for (const part of document.querySelectorAll("details.task")) part.open = button.dataset.details === "open";
  });
}

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
}

window.addEventListener("hashchange", openTarget);
openTarget();
