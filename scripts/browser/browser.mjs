// Looks at gpuprof's HTML pages in a headless Chromium: node browser.mjs CHROMIUM FOLDER [PATTERN],
// where FOLDER/made-up and FOLDER/real hold the pages. PATTERN picks some of them.
// It exits 1 when a check fails.
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import axe from "axe-core";
import * as drawn from "./drawn.mjs";
import * as views from "./views.mjs";

const [executablePath, folder, pattern = ""] = process.argv.slice(2);
const maxBytes = 2_000_000;

let failures = 0;
let checks = 0;
const paints = [];

// expect counts a check and prints it when it fails.
function expect(ok, page, what) {
  checks++;
  if (ok) return;
  failures++;
  console.error(`FAIL ${page}: ${what}`);
}

// until waits for what the page does in a later frame or task, as a canvas that
// redraws before the next paint; 10 s are more than a busy machine needs.
async function until(holds) {
  const end = Date.now() + 10_000;
  for (;;) {
    if (await holds()) return true;
    if (Date.now() > end) return false;
    await new Promise((done) => setTimeout(done, 20));
  }
}

const kinds = ["made-up", "real"];
const pages = kinds.flatMap((kind) => readdirSync(join(folder, kind)).filter((f) => f.endsWith(".html")).sort().map((f) => ({ kind, file: f, name: `${kind}/${f}`, path: join(folder, kind, f) }))).filter((p) => new RegExp(pattern).test(p.name));

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
try {
  expect(pages.length > 20 || pattern, folder, `only ${pages.length} pages were found`);
  for (const page of pages) {
    expect(statSync(page.path).size < maxBytes, page.name, `${statSync(page.path).size} bytes, 2 MB is the limit`);
    for (const colorScheme of ["light", "dark"]) await look(page, colorScheme);
  }
  if (existsSync(join(folder, "large"))) await large(join(folder, "large", "trace.html"));
} finally {
  await browser.close();
}
// Paint times are printed and never judged: on a machine that does other work
// they say nothing about the page.
paints.sort((a, b) => b.ms - a.ms);
console.log(`first contentful paint, slowest of ${paints.length}: ${paints.slice(0, 3).map((p) => `${p.ms.toFixed(0)} ms ${p.name}`).join(", ")} (not a criterion here)`);
console.log(`${checks} checks on ${pages.length} pages, ${failures} failed`);
process.exit(failures ? 1 : 0);

// large prints how long the page of a 54 MB trace takes to load, the best of three, and uses its pictures.
async function large(path) {
  const page = { kind: "large", file: "trace.html", name: "large/trace.html", path }, tab = await browser.newPage({ viewport: { width: 1280, height: 900 } }), times = [];
  tab.on("request", (r) => expect(r.url() === "file://" + path, page.name, `it asks for ${r.url().slice(0, 200)}`));
  tab.on("pageerror", (e) => expect(false, page.name, `script error: ${e}`));
  for (let i = 0; i < 3; i++) {
    await tab.goto("file://" + path);
    times.push(await tab.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd));
  }
  const script = await tab.evaluate(() => [...document.scripts].filter((s) => !s.type).reduce((n, s) => n + s.textContent.length, 0));
  expect(script < 150_000, page.name, `${script} bytes of script, 150 kB is the limit`);
  console.log(`load of the page of a 54 MB trace: ${Math.min(...times).toFixed(0)} ms, ${(statSync(path).size / 1000).toFixed(0)} kB with ${(script / 1000).toFixed(0)} kB of script (not a criterion here)`);
  await views.every(tab, (ok, what) => expect(ok, page.name, what));
  await tab.close();
}

// look opens one page in one colour scheme and checks all that every page must hold to.
async function look(page, colorScheme) {
  const name = `${page.name} (${colorScheme})`;
  const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 900 }, acceptDownloads: true });
  const tab = await context.newPage();
  const own = "file://" + page.path;
  // blob: is the page's own data on its way to a file.
  tab.on("request", (r) => expect(r.url() === own || r.url().startsWith("blob:"), name, `it asks for ${r.url().slice(0, 200)}`));
  tab.on("console", (m) => expect(!["error", "warning"].includes(m.type()), name, `console: ${m.text().slice(0, 300)}`));
  tab.on("pageerror", (e) => expect(false, name, `script error: ${e}`));
  tab.on("dialog", (d) => { expect(false, name, "a dialog opened"); d.dismiss(); });
  await tab.goto(own);
  const paint = await tab.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  paints.push({ name, ms: paint });
  expect(await tab.evaluate(() => window.hit === undefined), name, "text of the data was executed");

  await keyboard(tab, page, name, colorScheme);
  await tab.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  await tab.evaluate(axe.source);
  const found = await tab.evaluate(() => window.axe.run(document, { runOnly: { type: "tag", values: ["wcag2a", "wcag21a", "wcag22a"] }, resultTypes: ["violations"] }));
  for (const v of found.violations) expect(false, name, `axe ${v.id}: ${v.help}; ${v.nodes.slice(0, 2).map((n) => n.html.slice(0, 160)).join(" | ")}`);
  expect(found.violations.length === 0, name, "accessibility");

  for (const [what, width, media] of [["1400 px", 1400, "screen"], ["1024 px", 1024, "screen"], ["420 px", 420, "screen"], ["print", 760, "print"]]) {
    await tab.setViewportSize({ width, height: 900 });
    await tab.emulateMedia({ media, colorScheme });
    const wide = await tab.evaluate(() => ({ page: document.documentElement.scrollWidth, room: document.documentElement.clientWidth,
      what: [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).slice(0, 3).map((e) => e.tagName + "." + e.className) }));
    expect(wide.page <= wide.room, name, `${what}: ${wide.page} px wide in ${wide.room} px: ${wide.what.join(" ")}`);
  }
  await tab.setViewportSize({ width: 1280, height: 900 });
  await tab.emulateMedia({ media: "screen", colorScheme });

  // What is drawn does not depend on the colours.
  if (colorScheme === "light") {
    const data = await drawn.embedded(tab);
    const file = page.kind === "real" ? JSON.parse(readFileSync(page.path.replace("report.html", "run.html").replace(/html$/, "json"), "utf8")) : null;
    await drawn.check(tab, page.file, data, file, (ok, what) => expect(ok, page.name, what));
    await tables(tab, name);
    await pictures(tab, page, data);
    await phone(tab, page, name);
  }
  await context.close();
}

// pictures zooms, searches and selects in every picture that can be zoomed.
async function pictures(tab, page, data) {
  const told = (ok, what) => expect(ok, page.name, what);
  await views.every(tab, told);
  if (/memory/.test(page.file)) {
    await views.memory(tab, data, told);
    await views.flame(tab, "calls-chart", told);
  }
  if (/analysis-host/.test(page.file)) await views.flame(tab, "host-calls", told);
  if (/analysis/.test(page.file)) await views.touch(browser, page.path, told);
}

// phone: commands are one line, however narrow the page, and a click selects the whole of one. Tables have the columns
// of the answer first, and the others after a press.
async function phone(tab, page, name) {
  await tab.setViewportSize({ width: 420, height: 900 });
  const broken = await tab.evaluate(() => [...document.querySelectorAll("dd > code, p > code:only-child")].filter((c) => c.checkVisibility()).filter((c) => {
    const s = getSelection();
    s.selectAllChildren(c);
    return s.toString().includes("\n") || s.toString() !== c.textContent;
  }).map((c) => c.textContent.slice(0, 80)));
  const tables = await tab.evaluate(() => [...document.querySelectorAll("table.answer-first")].filter((t) => t.checkVisibility()).flatMap((t) => {
    const seen = () => [...t.querySelectorAll(".later")].filter((c) => c.checkVisibility()).length, press = t.closest(".scroll").previousElementSibling.querySelector(".more"), out = [];
    if (seen()) out.push("shows its later columns");
    press.click();
    if (!seen()) out.push("keeps its later columns hidden");
    press.click();
    return out.map((o) => `${t.caption.textContent.slice(0, 40)} ${o}`);
  }));
  expect(tables.length === 0, name, tables.slice(0, 3).join("; "));
  if (/comparison-gate/.test(page.file)) {
    const right = await tab.evaluate(() => [...document.querySelectorAll('[aria-label="Table of metrics"] thead th')].find((th) => th.textContent.trim() === "verdict").getBoundingClientRect().right);
    expect(right <= 420, name, `the verdicts end at ${right} px of 420`);
  }
  expect(broken.length === 0, name, `commands that are broken where they are copied: ${broken.slice(0, 2).join(" | ")}`);
  await tab.setViewportSize({ width: 1280, height: 900 });
}

// tables sorts every table by its last column of figures, and searches in those that can be.
async function tables(tab, name) {
  const wrong = await tab.evaluate(() => {
    const out = [];
    for (const table of document.querySelectorAll("table.grid")) {
      const at = [...(table.tBodies[0].rows[0]?.cells ?? [])].findLastIndex((c) => c.dataset.v !== undefined);
      const press = table.tHead?.rows[0].cells[at]?.querySelector("button.sort");
      const rows = () => [...table.tBodies[0].rows];
      const before = rows().map((r) => r.textContent).sort().join();
      for (const up of press ? [false, true] : []) {
        press.click();
        const said = press.parentElement.getAttribute("aria-sort") === (up ? "ascending" : "descending");
        const keys = rows().filter((r) => !r.classList.contains("kernel")).map((r) => r.cells[at]).filter((c) => c?.dataset.v !== undefined).map((c) => Number(c.dataset.v));
        if (!said || keys.some((k, i) => i > 0 && (up ? k < keys[i - 1] : k > keys[i - 1]))) out.push(`${table.caption?.textContent.slice(0, 40)}: not sorted ${up ? "upwards" : "downwards"}`);
      }
      if (rows().map((r) => r.textContent).sort().join() !== before) out.push(`${table.caption?.textContent.slice(0, 40)}: sorting lost a row`);
    }
    for (const input of document.querySelectorAll(".tools input")) {
      const table = input.closest(".tools").nextElementSibling.querySelector("table");
      const seen = () => [...table.tBodies[0].rows].filter((r) => !r.hidden).length;
      const all = seen();
      const type = (text) => { input.value = text; input.dispatchEvent(new Event("input")); };
      type("no row holds this");
      if (seen() !== 0) out.push("a search that nothing matches leaves rows");
      type("");
      if (seen() !== all) out.push("an empty search hides rows");
    }
    return out;
  });
  expect(wrong.length === 0, name, wrong.slice(0, 3).join("; "));
}

// keyboard goes through the page without a mouse.
async function keyboard(tab, page, name, colorScheme) {
  await tab.keyboard.press("Tab");
  expect(await until(() => tab.evaluate(() => document.activeElement?.className === "skip" && document.activeElement.getBoundingClientRect().left >= 0)), name, "Tab does not show the link to the report first");
  await tab.keyboard.press("Enter");
  expect(await until(() => tab.evaluate(() => location.hash === "#main")), name, "the skip link does not lead to the report");
  const stuck = await tab.evaluate(() => [...document.querySelectorAll(".scroll, button, summary, canvas")].filter((e) => e.checkVisibility() && e.tabIndex < 0).length);
  expect(stuck === 0, name, `${stuck} parts cannot be reached with the keyboard`);
  if (colorScheme !== "light") return;
  const fold = tab.locator("main details > summary").first();
  if (await fold.count()) {
    const open = () => fold.evaluate((s) => s.parentElement.open);
    const before = await open();
    await fold.focus();
    await tab.keyboard.press("Enter");
    expect(await until(async () => (await open()) !== before), name, "Enter does not unfold a part");
  }
  const canvas = tab.locator("#tl");
  if (await canvas.count()) {
    const picture = () => canvas.evaluate((c) => c.toDataURL());
    const before = await picture();
    await canvas.focus();
    await tab.keyboard.press("+");
    expect(await until(async () => (await picture()) !== before), name, "+ does not zoom the timeline");
    await tab.keyboard.press("ArrowDown");
    const told = () => tab.locator("#tl-tip").textContent();
    expect(await until(async () => (await told()).includes(": ")), name, "the line below the timeline does not follow the keys");
  }
  const lost = await tab.evaluate(() => [...document.querySelectorAll("nav a")].filter((a) => !document.getElementById(decodeURIComponent(a.hash.slice(1)))).map((a) => a.hash));
  expect(lost.length === 0, name, `the contents lead nowhere: ${lost.join(" ")}`);
  const save = tab.locator("#save");
  if (await save.count()) {
    const [download] = await Promise.all([tab.waitForEvent("download"), save.press("Enter")]);
    const same = await drawn.savedEqualsEmbedded(tab, readFileSync(await download.path()));
    expect(same, name, "the saved file is not the embedded data");
  }
}
