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
  const ids = field.dataset.filter.split(" ");
  const bodies = ids.map((id) => document.getElementById(id)?.tBodies[0]).filter(Boolean);
  const shown = document.querySelector(`output[data-count="${field.dataset.filter}"]`);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    let all = 0;
    for (const row of bodies.flatMap((body) => Array.from(body.rows))) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      left += row.hidden ? 0 : 1;
      all += 1;
    }
    if (shown) shown.textContent = words.length ? `${left} of ${all} rows` : "";
  });
}

for (const button of document.querySelectorAll("button[data-details]")) {
  button.addEventListener("click", () => {
    for (const part of document.querySelectorAll("details.task")) part.open = button.dataset.details === "open";
  });
}

// One model (or family) of a figure alone: while pointed at, or kept by a click or Enter.
function single(svg, name) {
  svg.classList.toggle("single", name !== "");
  for (const mark of svg.querySelectorAll("[data-model]")) mark.classList.toggle("on", mark.dataset.model === name);
}

for (const svg of document.querySelectorAll("figure svg")) {
  let kept = "";
  const nameAt = (event) => event.target.closest("[data-model]")?.dataset.model ?? "";
  const keep = (name) => single(svg, (kept = name === kept ? "" : name));
  svg.addEventListener("pointerover", (event) => kept || single(svg, nameAt(event)));
  svg.addEventListener("pointerleave", () => kept || single(svg, ""));
  svg.addEventListener("click", (event) => keep(nameAt(event)));
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && nameAt(event)) keep(nameAt(event));
    if (event.key === "Escape") single(svg, (kept = ""));
  });
  for (const text of svg.querySelectorAll('[id*="legend"] [data-model]')) {
    text.setAttribute("tabindex", "0");
    text.setAttribute("role", "button");
  }
}

const theme = document.getElementById("theme");
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
}
try {
  setTheme(localStorage.getItem("medheb-theme"));
} catch {
  // Some browsers keep nothing for pages opened from a disk.
}
theme.hidden = false;
theme.addEventListener("click", () => {
  const chosen = document.documentElement.dataset.theme;
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
  try {
    localStorage.setItem("medheb-theme", document.documentElement.dataset.theme);
  } catch {
    // Then it lasts until the page is closed.
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea")) return;
  event.preventDefault();
  const every = Array.from(document.querySelectorAll("input[type=search]"));
  const fields = every.filter((field) => !field.closest("details:not([open])"));
  (fields.find((field) => field.getBoundingClientRect().bottom > 0) ?? fields.at(-1))?.focus();
});

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  let opened = false;
  for (let part = target; part; part = part.parentElement) {
    if (part instanceof HTMLDetailsElement && !part.open) opened = part.open = true;
  }
  if (opened || target instanceof HTMLDetailsElement) target.scrollIntoView({ behavior: "instant" });
}

window.addEventListener("hashchange", openTarget);
openTarget();
