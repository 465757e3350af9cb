// Uses the pictures that can be zoomed as a reader would, and compares what they add up to with the tables' data.

const canvasOf = (tab, view) => tab.locator(`${view} canvas[id]`);
const tip = (tab, view) => tab.locator(`${view} .tip`).textContent();
const json = (tab, id) => tab.evaluate((i) => JSON.parse(document.getElementById(i)?.textContent ?? "null"), id);

// selected reads the table of a selection: a row by its name, its figures in base units.
async function selected(tab, view) {
  return new Map(await tab.locator(`${view} .sums tbody tr`).evaluateAll((rows) => rows.map((r) => [r.cells[0].textContent, [...r.cells].slice(1).map((c) => Number(c.dataset.v))])));
}

// drag selects from one share of a canvas to another.
async function drag(tab, view, from, to, hold) {
  const box = await canvasOf(tab, view).boundingBox();
  const y = box.y + Math.min(40, box.height / 2);
  if (hold) await tab.keyboard.down(hold);
  await tab.mouse.move(box.x + from * box.width, y);
  await tab.mouse.down();
  await tab.mouse.move(box.x + (from + to) / 2 * box.width, y);
  await tab.mouse.move(box.x + to * box.width, y);
  await tab.mouse.up();
  if (hold) await tab.keyboard.up(hold);
}

const picture = (tab, view) => canvasOf(tab, view).evaluate((c) => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(c.toDataURL())))));

// every holds for each picture of a page: keys, help, search and touch.
export async function every(tab, expect) {
  for (const id of await tab.locator(".view.drawn").evaluateAll((all) => all.map((v) => v.id))) {
    const view = `#${id}`;
    await tab.locator(view).scrollIntoViewIfNeeded();
    await keys(tab, view, expect);
    await search(tab, view, expect);
  }
  const timeline = await json(tab, "timeline-data");
  if (timeline) await ofTimeline(tab, timeline, expect);
}

async function keys(tab, view, expect) {
  const canvas = canvasOf(tab, view);
  await canvas.focus();
  await tab.keyboard.press("Home");
  const whole = await picture(tab, view);
  for (const [key, back] of [["w", "Home"], ["+", "Home"]]) {
    await tab.keyboard.press(key);
    expect((await picture(tab, view)) !== whole, `${view}: ${key} does not zoom`);
    await tab.keyboard.press(back);
    expect((await picture(tab, view)) === whole, `${view}: ${back} does not show all again`);
  }
  await tab.keyboard.press("w");
  for (const key of ["a", "d", "ArrowLeft", "ArrowRight", "s"]) {
    const before = await picture(tab, view);
    await tab.keyboard.press(key);
    expect((await picture(tab, view)) !== before, `${view}: ${key} changes nothing`);
  }
  await tab.keyboard.press("Home");
  await tab.keyboard.press("ArrowDown");
  expect((await tip(tab, view)).trim().length > 3, `${view}: choosing by keys tells nothing`);
  await tab.keyboard.press("Escape");
  expect((await tip(tab, view)).trim() === "", `${view}: Escape does not clear the choice`);
  await tab.keyboard.press("?");
  const help = tab.locator(`${view} dialog[open]`);
  expect((await help.count()) === 1 && (await help.textContent()).includes("zoom in"), `${view}: ? opens no help`);
  await tab.keyboard.press("Escape");
  expect((await help.count()) === 0, `${view}: Escape does not close the help`);
  expect(await canvas.evaluate((c) => document.activeElement === c), `${view}: the focus is lost when the help closes`);
}

async function search(tab, view, expect) {
  await canvasOf(tab, view).focus();
  await tab.keyboard.press("/");
  expect(await tab.evaluate((v) => document.activeElement?.type === "search" && document.querySelector(v).contains(document.activeElement), view), `${view}: / does not lead to the search`);
  const count = tab.locator(`${view} .search output`);
  await tab.keyboard.type("no name holds this");
  expect((await count.textContent()) === "nothing found", `${view}: the search for what is not there gives "${await count.textContent()}"`);
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("/");
  await tab.keyboard.type("e");
  const text = await count.textContent(), all = Number(/^1 of (\d+)/.exec(text)?.[1]);
  expect(all >= 1, `${view}: the search for e gives "${text}"`);
  await tab.keyboard.press("Enter");
  expect((await count.textContent()).startsWith(`${all > 1 ? 2 : 1} of `), `${view}: Enter does not lead to the next place`);
  await tab.locator(`${view} [id$="-previous"]`).click();
  expect((await count.textContent()).startsWith("1 of "), `${view}: Previous does not lead back`);
  await canvasOf(tab, view).focus();
  await tab.keyboard.press("Escape");
  expect((await count.textContent()) === "", `${view}: Escape does not clear the search`);
}

// ofTimeline: the sums of a selection are the tables' figures, a finding leads to its place.
async function ofTimeline(tab, timeline, expect) {
  const view = "#timeline-view", canvas = canvasOf(tab, view);
  const data = await analysis(tab);
  await canvas.focus();
  await tab.keyboard.press("Home");
  await drag(tab, view, 0.02, 0.999);
  await drag(tab, view, 0.02, 1.1);
  const got = await selected(tab, view), want = new Map();
  for (const k of data?.kernels ?? []) {
    const s = want.get(k.class) ?? [0, 0];
    want.set(k.class, [s[0] + k.ns, s[1] + k.count]);
  }
  for (const [kind, [ns, count]] of want) {
    const row = got.get(kind) ?? [NaN, NaN, NaN];
    expect(row[0] === ns && row[2] === count, `selected ${kind}: ${row[0]} ns of ${row[2]}, the tables have ${ns} ns of ${count}`);
  }
  const kernels = (data?.devices ?? []).reduce((n, d) => n + d.kernels, 0), caption = await tab.locator(`${view} .sums caption`).textContent();
  expect(caption.includes(`, ${kernels} kernels`), `the selection counts "${caption}", the tables have ${kernels} kernels`);
  await steps(tab, timeline, data, expect);
  await tab.keyboard.press("Escape");
  if (timeline.stacks) await stacks(tab, timeline, expect);
  const places = await tab.locator("a[data-find]").count();
  expect(places === (timeline.finds?.length ?? 0), `${places} findings lead into the timeline, which has ${timeline.finds?.length ?? 0} places`);
  for (let i = 0; i < places; i++) {
    const link = tab.locator("a[data-find]").nth(i), find = timeline.finds[Number(await link.getAttribute("data-find")) - 1];
    await tab.keyboard.press("Home");
    const before = await picture(tab, view);
    await link.focus();
    await tab.keyboard.press("Enter");
    expect((await picture(tab, view)) !== before, `${find.rule}: the link changes nothing in the timeline`);
    const long = Math.max(...find.spans.filter((_, k) => k % 2)), at = find.spans.findIndex((s, k) => k % 2 && s === long) - 1;
    const seen = await tab.evaluate(() => ({ from: window.gpuprof.timeline.from, to: window.gpuprof.timeline.to, hit: window.gpuprof.timeline.hits[window.gpuprof.timeline.hit]?.range }));
    const [a, b] = [find.spans[at], find.spans[at] + long];
    expect(seen.hit?.[0] === a && seen.hit?.[1] === b, `${find.rule}: the place that is marked is not the longest`);
    expect(seen.from <= a && b <= seen.to && (seen.to - seen.from <= Math.max(4 * long, 200) || seen.to - seen.from >= timeline.span * 0.999), `${find.rule}: the timeline shows ${seen.from} to ${seen.to}, the place is ${a} to ${b}`);
    expect((await tip(tab, view)).startsWith(find.rule + ": "), `${find.rule}: the line below the timeline does not name it`);
    expect(await canvas.evaluate((c) => { const box = c.getBoundingClientRect(); return box.top < innerHeight && box.bottom > 0; }), `${find.rule}: the timeline is out of sight`);
  }
}

// stacks: the operation below the pointer has the frames that launched it.
async function stacks(tab, timeline, expect) {
  const r = timeline.rows.findIndex((x) => x.stacks?.some((k) => k > 0)), row = timeline.rows[r], i = row.stacks.findIndex((k) => k > 0);
  let start = 0;
  for (let k = 0; k <= i; k++) start += row.boxes[5 * k];
  await tab.evaluate(([a, b]) => window.gpuprof.timeline.focus([a, b]), [start, start + row.boxes[5 * i + 1]]);
  await picture(tab, "#timeline-view");
  await canvasOf(tab, "#timeline-view").scrollIntoViewIfNeeded();
  const box = await canvasOf(tab, "#timeline-view").boundingBox();
  const x = await tab.evaluate((t) => window.gpuprof.timeline.x(t), start + row.boxes[5 * i + 1] / 2);
  await tab.mouse.move(box.x + x, box.y + 22 + r * 22 + 11);
  const told = await tab.locator("#timeline-view .stack li").allTextContents(), want = timeline.stacks[row.stacks[i] - 1].map((f) => timeline.frames[f]);
  expect(told.join() === want.join(), `${row.name}: the stack below the pointer is "${told.join(" < ")}", the data has "${want.join(" < ")}"`);
}

// steps: a selection of the time of a step adds up to what the step's own figures are.
async function steps(tab, timeline, data, expect) {
  const streams = timeline.rows.filter((r) => r.sums === "stream"), row = timeline.rows.find((r) => r.name === "steps");
  if (streams.length !== 1 || !row || !data.steps?.length) return;
  const origin = data.steps[0].host_start_ns - row.boxes[0];
  for (const s of data.steps.filter((x) => x.device >= 0)) {
    await tab.evaluate(([a, b]) => window.gpuprof.timeline.select(a, b), [s.start_ns - origin, s.start_ns - origin + s.dur_ns]);
    const got = await selected(tab, "#timeline-view");
    // Since 1970 there are more nanoseconds than a number of JavaScript counts: its steps are then 256 ns.
    const slack = s.start_ns > Number.MAX_SAFE_INTEGER ? 1024 : 0;
    for (const [kind, ns] of Object.entries(s.classes ?? {})) expect(Math.abs(got.get(kind)?.[0] - ns) <= slack, `${s.name}: ${kind} is selected as ${got.get(kind)?.[0]} ns, the step has ${ns}`);
  }
}

async function analysis(tab) {
  const text = await tab.evaluate(() => document.getElementById("run-data")?.textContent ?? "null");
  return JSON.parse(text);
}

// memory: what is held at the peak is the table's, and the peak is marked.
export async function memory(tab, data, expect) {
  const view = "#memory-chart-view", trace = await json(tab, "memory-chart-data"), d = data.devices[0];
  if (!trace) return expect(false, "the page has no allocations");
  await tab.evaluate(([root, b]) => { window.gpuprof.views[root].select(0, b); }, ["memory-chart-view", d.peak.event]);
  const got = await selected(tab, view);
  expect(trace.peak === d.peak.event && trace.peak_bytes === d.peak.requested_bytes, "the peak that is marked is not the data's");
  if (!trace.others) for (const c of d.peak.categories) expect(got.get(c.category)?.[3] === c.bytes, `${c.category} at the peak: ${got.get(c.category)?.[3]} selected, the table has ${c.bytes}`);
  const canvas = canvasOf(tab, view);
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  let told = "";
  for (let y = box.height - 12; y > 30 && !told.includes("B, "); y -= 12) {
    await tab.mouse.move(box.x + box.width * 0.6, box.y + y);
    told = await tip(tab, view);
  }
  expect(/^[\d.]+ [KMGT]?i?B, .+event|before the recording/.test(told), `nothing is told of the allocation below the pointer: ${told}`);
  expect(!trace.frames.length || (await tab.locator(`${view} .stack li`).count()) > 0, "the allocation below the pointer has no stack");
}

// flame: a click zooms to the call, its share is the data's.
export async function flame(tab, id, expect) {
  const view = `#${id}-view`, data = await json(tab, `${id}-data`), canvas = canvasOf(tab, view);
  if (!data) return expect(false, `no flame ${id}`);
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox(), before = await picture(tab, view);
  const narrow = data.calls.findIndex((_, k) => k % 4 === 2 && data.calls[k] < data.span * 0.9) - 2;
  if (narrow < 0) return;
  const [depth, from, width] = data.calls.slice(narrow, narrow + 3);
  await tab.mouse.click(box.x + (from + width / 2) / data.span * (box.width - 4), box.y + 20 + depth * 20 + 10);
  expect((await picture(tab, view)) !== before, `${view}: a click does not zoom`);
  const told = await tip(tab, view);
  expect(told.includes(`${(100 * width / data.span).toFixed(1)} % of the ${data.of}`), `${view}: told ${told}`);
  expect((await tab.locator(`${view} .stack li`).count()) === depth + 1, `${view}: the stack has not ${depth + 1} frames`);
}

// touch moves and zooms by fingers, and selects after the button.
export async function touch(browser, path, expect) {
  const context = await browser.newContext({ viewport: { width: 420, height: 900 }, hasTouch: true, isMobile: true });
  const tab = await context.newPage();
  await tab.goto("file://" + path);
  const view = "#timeline-view";
  await canvasOf(tab, view).scrollIntoViewIfNeeded();
  const client = await context.newCDPSession(tab);
  const send = (type, points) => client.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
  const state = () => tab.evaluate(() => ({ from: window.gpuprof.timeline.from, to: window.gpuprof.timeline.to, selection: window.gpuprof.timeline.selection }));
  const box = await canvasOf(tab, view).boundingBox(), y = box.y + 50, x = (share) => box.x + share * box.width;
  await send("touchStart", [[x(0.6), y], [x(0.7), y]]);
  for (const d of [0.05, 0.1, 0.15]) await send("touchMove", [[x(0.6 - d), y], [x(0.7 + d), y]]);
  await send("touchEnd", []);
  const zoomed = await state();
  expect(zoomed.from > 0, "two fingers do not zoom the timeline");
  await send("touchStart", [[x(0.5), y]]);
  for (const d of [0.05, 0.1, 0.2]) await send("touchMove", [[x(0.5 + d), y]]);
  await send("touchEnd", []);
  const moved = await state();
  expect(moved.from < zoomed.from && moved.selection === null, "a finger does not move the timeline");
  await tab.locator("#tl-select").click();
  await canvasOf(tab, view).scrollIntoViewIfNeeded();
  const now = await canvasOf(tab, view).boundingBox();
  await send("touchStart", [[x(0.5), now.y + 50]]);
  for (const d of [0.05, 0.1, 0.2]) await send("touchMove", [[x(0.5 + d), now.y + 50]]);
  await send("touchEnd", []);
  const chosen = await state();
  expect(chosen.selection !== null && chosen.from === moved.from, "a finger does not select after the button");
  expect((await tab.locator(`${view} .sums tbody tr`).count()) > 0, "the selection by touch has no sums");
  await context.close();
}
