"use strict";
// One comparison at a time; choices are kept in this browser and saved as a file.
const articles = Array.from(document.querySelectorAll("article.question"));
const key = document.body.dataset.key;
const store = `medheb-preference-${key}`;
const made = document.getElementById("made");
let choices = {};
let at = 0;
try {
  choices = JSON.parse(localStorage.getItem(store) ?? "{}");
} catch {
  choices = {};
}

function keep() {
  try {
    localStorage.setItem(store, JSON.stringify(choices));
  } catch {
    // Then the file is the only copy; the page says how many are made.
  }
}

function show(place) {
  at = Math.max(0, Math.min(articles.length - 1, place));
  articles.forEach((article, number) => {
    article.hidden = number !== at;
  });
  const chosen = choices[articles[at].id.slice(2)];
  for (const button of document.querySelectorAll("button[data-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.choice === chosen));
  }
  made.textContent = `Comparison ${at + 1} of ${articles.length}; ${Object.keys(choices).length} made`;
}

function choose(choice) {
  choices[articles[at].id.slice(2)] = choice;
  keep();
  const next = articles.findIndex((article, number) => number > at && !(article.id.slice(2) in choices));
  show(next === -1 ? at : next);
}

for (const button of document.querySelectorAll("button[data-choice]")) {
  button.addEventListener("click", () => choose(button.dataset.choice));
}
document.getElementById("back").addEventListener("click", () => show(at - 1));
document.getElementById("next").addEventListener("click", () => show(at + 1));
document.getElementById("save").addEventListener("click", () => {
  const content = JSON.stringify({ schema_version: 1, key, choices }, null, 1);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  link.download = "choices.json";
  link.click();
  URL.revokeObjectURL(link.href);
});
document.addEventListener("keydown", (event) => {
  const keys = { 1: "left", 2: "tie", 3: "right" };
  if (event.key in keys) choose(keys[event.key]);
  if (event.key === "ArrowLeft") show(at - 1);
  if (event.key === "ArrowRight") show(at + 1);
});
const first = articles.findIndex((article) => !(article.id.slice(2) in choices));
show(first === -1 ? 0 : first);
