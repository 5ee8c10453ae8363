"use strict";
// Figures name colours by CSS variable; they are drawn again whenever the colours change.

const root = document.documentElement;
const PRINT_WIDTH = 640;
const plots = [...document.querySelectorAll(".plot")].map((div) => ({
  div,
  figure: JSON.parse(document.getElementById(div.id + "-data").textContent),
}));

function paint(value, css) {
  if (typeof value === "string") {
    const name = /^var\((--[\w-]+)\)$/.exec(value);
    return name ? css.getPropertyValue(name[1]).trim() : value;
  }
  if (Array.isArray(value)) return value.map((entry) => paint(entry, css));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, paint(entry, css)]));
}

function draw(resize) {
  const css = getComputedStyle(root);
  for (const { div, figure } of plots) {
    const { data, layout } = paint(figure, css);
    Plotly.react(div, data, { ...layout, ...resize(layout) }, { displayModeBar: false, responsive: true });
  }
}

function print() {
  root.dataset.print = "";
  draw((layout) => ({ width: PRINT_WIDTH, height: 0.8 * layout.height, autosize: false }));
}

function show() {
  delete root.dataset.print;
  draw(() => ({ autosize: true }));
}

show();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
matchMedia("print").addEventListener("change", (event) => (event.matches ? print() : show()));
addEventListener("beforeprint", print);
addEventListener("afterprint", show);
