"use strict";

// Tables sort by a click on a heading, numbers by their value; what is empty stays at the end.
for (const table of document.querySelectorAll("table.sorts")) {
  const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const falling = heading.getAttribute("aria-sort") === "ascending";
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      sort(table.tBodies[0], column, falling ? -1 : 1);
    });
  });
}

function sort(body, column, direction) {
  const key = (row) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.trim();
    if (text === "" || cell.classList.contains("faint")) return null;
    const number = parseFloat(text.replaceAll(",", "").replaceAll("\u2212", "-"));
    return cell.classList.contains("number") && !Number.isNaN(number) ? number : text;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return direction * (a - b);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return direction * a.localeCompare(b, "en", { numeric: true });
  };
  const rows = [...body.rows].map((row) => [key(row), row]);
  rows.sort(([a], [b]) => compare(a, b));
  body.append(...rows.map(([, row]) => row));
}

// Claims by verdict and by words.
const tools = document.querySelector("#claims .tools");
if (tools) {
  const rows = [...document.querySelectorAll("#claims tr[data-verdict]")];
  const papers = [...document.querySelectorAll("#claims tr.paper")];
  const words = tools.querySelector("input");
  const buttons = [...tools.querySelectorAll("button")];
  const told = tools.querySelector("output");
  let chosen = "";
  const show = () => {
    const wanted = words.value.trim().toLowerCase();
    let left = 0;
    for (const row of rows) {
      const fits = (!chosen || row.dataset.verdict === chosen) && row.textContent.toLowerCase().includes(wanted);
      row.hidden = !fits;
      left += fits;
    }
    for (const paper of papers) paper.hidden = !paper.parentElement.querySelector("tr[data-verdict]:not([hidden])");
    told.textContent = `${left} of ${rows.length} shown`;
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      chosen = button.dataset.verdict;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      show();
    });
  }
  words.addEventListener("input", show);
  tools.hidden = false;
  show();
}

// A link into something closed opens it.
function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const inside = target && target.querySelector(":scope > details");
  for (let place = inside || target; place; place = place.parentElement) {
    if (place.tagName === "DETAILS") place.open = true;
  }
  if (target) target.scrollIntoView();
}
window.addEventListener("hashchange", open);
if (location.hash) open();

const unfold = document.querySelector(".unfold");
if (unfold) {
  unfold.hidden = false;
  unfold.addEventListener("click", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
}

// Paper has no folds: sections are printed open, what is folded inside them as it is on the screen.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("section[id] > details:not([open])")].filter((each) => each.querySelector("h2"));
  for (const each of folded) each.open = true;
});
window.addEventListener("afterprint", () => folded.forEach((each) => { each.open = false; }));
