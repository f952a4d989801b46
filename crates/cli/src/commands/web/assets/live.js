// Renews the parts of a page that carry the address of their newest form, and brings "/" to the search.
"use strict";

const EVERY_MS = 2000;

const rows = (part) => Array.from(part.querySelectorAll("[data-row]"), (row) => row.dataset.row).join("\n");

function put(part, fresh) {
  // A table with other rows is put in as a whole, unless somebody is about to press something in it.
  if (rows(part) !== rows(fresh)) {
    if (!part.contains(document.activeElement)) part.replaceChildren(...fresh.childNodes);
    return;
  }
  for (const cell of fresh.querySelectorAll("[data-cell]")) {
    const old = part.querySelector(`[data-cell="${CSS.escape(cell.dataset.cell)}"]`);
    if (!old || old.innerHTML === cell.innerHTML || old.contains(document.activeElement)) continue;
    old.replaceChildren(...cell.childNodes);
  }
}

async function renew(part) {
  const answer = await fetch(part.dataset.live, { cache: "no-store" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  put(part, page.body);
}

async function turn() {
  if (!document.hidden) {
    const parts = Array.from(document.querySelectorAll("[data-live]"));
    // A server that is away comes back.
    await Promise.allSettled(parts.map(renew));
  }
  setTimeout(turn, EVERY_MS);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
  }
});

setTimeout(turn, EVERY_MS);
