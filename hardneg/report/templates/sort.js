"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const value = (body, column) => {
    const text = body.rows[0].cells[column].textContent.trim();
    const figure = Number(text.replace("\u2212", "-"));
    return Number.isNaN(figure) ? text : figure;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return typeof a === typeof b ? a.localeCompare(b, "en", { numeric: true }) : typeof a === "number" ? 1 : -1;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      const sign = order === "ascending" ? 1 : -1;
      const bodies = [...table.tBodies].map((body) => [value(body, column), body]);
      bodies.sort((a, b) => sign * compare(a[0], b[0]));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      table.append(...bodies.map((pair) => pair[1]));
    });
  });
}
