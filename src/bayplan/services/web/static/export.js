// One screen as one HTML file: its elements, its styles, and pictures of what was drawn on a canvas.

import { h } from "./dom.js";

export async function saveScreen(main) {
  const html = await screenAsHtml(main);
  const link = h("a", { href: URL.createObjectURL(new Blob([html], { type: "text/html" })), download: fileName() });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export async function screenAsHtml(main) {
  const copy = main.cloneNode(true);
  const drawn = main.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, at) => {
    const image = h("img", { src: drawn[at].toDataURL("image/png"), alt: canvas.getAttribute("aria-label") ?? "" });
    image.style.width = drawn[at].style.width;
    canvas.replaceWith(image);
  });
  // What was asked belongs to the answer.
  const written = main.querySelectorAll("textarea");
  copy.querySelectorAll("textarea").forEach((each, at) => {
    each.closest("form").replaceWith(h("section.card", {}, h("h2", {}, "Manifest"), h("pre", {}, written[at].value)));
  });
  copy.querySelectorAll("button.sort").forEach((each) => each.replaceWith(...each.childNodes));
  copy.querySelectorAll("button, select, input, textarea, form, .controls").forEach((each) => each.remove());
  copy.querySelectorAll("a[href]").forEach((each) => each.replaceWith(h("span.name", {}, ...each.childNodes)));
  const styles = await Promise.all(
    ["/static/colours.css", "/static/style.css"].map(async (url) => (await fetch(url)).text()),
  );
  const saved = `${location.pathname}${location.search} · saved ${new Date().toISOString().slice(0, 19)}Z · bayplan`;
  // Never part of a document here, where the page's policy would refuse the style.
  const page = h(
    "html",
    { lang: "en", "data-theme": document.documentElement.dataset.theme },
    h("head", {}, h("meta", { charset: "utf-8" }), h("title", {}, document.title), h("style", {}, styles.join("\n"))),
    h("body", {}, copy, h("p.quiet.made", {}, saved)),
  );
  return `<!doctype html>\n${page.outerHTML}\n`;
}

function fileName() {
  const words = decodeURIComponent(location.pathname).split("/").filter(Boolean).join("-") || "cluster";
  return `bayplan-${words.replace(/[^A-Za-z0-9._-]/g, "_")}.html`;
}
