// Compares what a page draws with the data it was made from.
import { gunzipSync } from "node:zlib";

// decode reads the text of the run-data element.
function decode(text) {
  const data = JSON.parse(text);
  return data && data.encoding === "gzip+base64" ? JSON.parse(gunzipSync(Buffer.from(data.data, "base64")).toString()) : data;
}

const rawText = (tab) => tab.evaluate(() => document.getElementById("run-data")?.textContent ?? "");

// embedded is the data in the page; null where the page says that it holds none.
export async function embedded(tab) {
  const text = await rawText(tab);
  return text ? decode(text) : null;
}

export async function savedEqualsEmbedded(tab, bytes) {
  const saved = bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes).toString() : bytes.toString();
  return JSON.stringify(JSON.parse(saved)) === JSON.stringify(decode(await rawText(tab)));
}

const scales = { s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 };

// seconds reads "12.3 ms"; NaN when it is none.
function seconds(text) {
  const m = /^([0-9.e+-]+) (s|ms|us|ns)$/.exec(text.trim());
  return m ? Number(m[1]) * scales[m[2]] : NaN;
}

// close holds for a figure printed with three digits.
const close = (got, want) => Math.abs(got - want) <= 0.0051 * Math.abs(want) + 1e-12;

const cells = (tab, rows) => tab.locator(rows).evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent.trim())));
const texts = (tab, selector) => tab.locator(selector).evaluateAll((all) => all.map((e) => e.textContent.trim()));

// check holds for every page what must hold for its kind.
export async function check(tab, file, data, onDisk, expect) {
  await inside(tab, expect);
  if (onDisk) expect(data && JSON.stringify(data) === JSON.stringify(onDisk), "the embedded data is not the file's");
  if (!data || /hostile|nan|empty/.test(file)) return;
  if (data.kind !== "run") await answered(tab, data, expect); // a run's page says why it is partial in a line of its own
  if (data.kind === "sweep") return sweep(tab, data.runs, expect);
  if (data.kind === "tune") return tune(tab, data, expect);
  if (["check", "fleet", "health", "noise", "history", "memory", "analysis"].includes(data.kind)) return; // views.mjs, or no pictures of figures
  if (data.metrics) return comparison(tab, data, expect);
  if (data.workload && data.stages) return run(tab, data, file, expect);
}

// inside: no text of a chart is cut off by its edge, and no two coordinates are lost.
async function inside(tab, expect) {
  const out = await tab.locator("svg.figure").evaluateAll((charts) => charts.flatMap((svg) => {
    const box = svg.viewBox.baseVal;
    return [...svg.querySelectorAll("text")].filter((t) => {
      const b = t.getBBox();
      return b.width > 0 && (b.x < -2 || b.x + b.width > box.width + 2 || b.y < -3 || b.y + b.height > box.height + 3);
    }).map((t) => t.textContent.slice(0, 60));
  }));
  expect(out.length === 0, `text beyond the edge of its chart: ${out.slice(0, 4).join(" | ")}`);
}

async function run(tab, r, file, expect) {
  const title = await tab.locator("header.top").textContent();
  expect(title.includes(r.workload) && title.includes(r.preset) && title.includes(r.status), `the title ${title} lacks workload, preset or status`);
  if (r.status !== "complete") expect((await tab.locator("h1 .badge").textContent()).includes(r.status), "the page does not say plainly that the run is not whole");
  expect((await cells(tab, '[aria-labelledby="knobs"] tbody tr')).every(([name, value]) => r.knobs[name] === value), "a knob is not the run's");
  expect((await tab.locator('[aria-labelledby="checks"] tbody tr').count()) === r.checks.length, "the checks are not the run's");
  if (r.status === "invalid") {
    expect((await tab.locator("#stages, #spreads").count()) === 0, "an invalid run shows times");
    return;
  }
  const big = (await texts(tab, ".lead .big"))[0];
  expect(close(seconds(big), r.step.median), `the step is drawn as ${big}, run.json has ${r.step.median}`);

  const stages = r.stages.filter((s) => s.parent === "step");
  const rows = await cells(tab, ".stages tbody tr:not(.kernel)");
  expect(rows.length === stages.length, `${rows.length} rows for ${stages.length} stages`);
  for (const row of rows) {
    const s = stages.find((x) => x.name === row[0]);
    expect(s, `no stage ${row[0]} in run.json`);
    for (const [i, key] of [[1, "exposed"], [3, "device"], [5, "host"]]) {
      if (s?.[key]?.median) expect(close(seconds(row[i]), s[key].median), `${s.name} ${key}: drawn ${row[i]}, run.json has ${s[key].median}`);
    }
  }
  expect((await tab.locator(".stages tr.kernel").count()) === r.stages.length - stages.length, "the kernels are not the run's");

  // Each bar of the stack begins where the shares of all exposed time before it end: a bar
  // itself is drawn at least as wide as can be seen.
  const sum = (s) => (s.exposed?.runs ?? []).flat().reduce((a, v) => a + Math.max(v, 0), 0);
  const total = stages.reduce((a, s) => a + sum(s), 0);
  const bars = await tab.locator('svg[aria-labelledby^="stack-t"] rect').evaluateAll((all) => all.filter((b) => b.querySelector("title")).map((b) => [b.querySelector("title").textContent, Number(b.getAttribute("x")), Number(b.getAttribute("width"))]));
  const end = bars.length ? bars.at(-1)[1] + bars.at(-1)[2] + 0.6 : 0;
  const whole = end - (bars[0]?.[1] ?? 0);
  for (const [i, [what, x]] of bars.entries()) {
    const width = (bars[i + 1]?.[1] ?? end) - x;
    const s = stages.find((x) => what.startsWith(x.name + ":"));
    if (what.startsWith("stages below")) continue;
    if (!/thinned/.test(JSON.stringify(r.warnings))) expect(s && Math.abs(width / whole - sum(s) / total) < 0.003, `the bar of ${what} is ${width} wide, its share is ${sum(s) / total}`);
  }
  expect(bars.length > 0, "there is no bar of stages");

  const dots = await tab.locator('svg[aria-labelledby^="spread-t"] path.sample').evaluateAll((all) => all.reduce((n, p) => n + (p.getAttribute("d").match(/M/g) ?? []).length, 0));
  const said = /all (\d+) samples are drawn|(\d+) of \d+ samples are drawn/.exec(await tab.locator('[aria-labelledby="spreads"]').textContent());
  expect(said && dots === Number(said[1] ?? said[2]), `${dots} samples are drawn, the page says ${said?.[0]}`);
  const shown = await tab.locator('svg[aria-labelledby^="spread-t"] path.sample').count();
  const processes = r.step.runs.filter((x) => x.length).length;
  expect(shown > 0 && shown % processes === 0, `${shown} lines of samples for ${processes} processes`);

  const labels = await texts(tab, "svg .axis-label");
  const need = ["how often", "samples in the order they were taken, process after process"];
  if (r.example_step?.length) need.push("time since the step began (");
  if (Object.values(r.telemetry ?? {}).some((t) => t.value.length > 2)) need.push("time since the run began (s)");
  if (stages.some((s) => s.counters?.flops && s.device)) need.push("flop/s (counted", "arithmetic intensity (flop per byte, counted)");
  for (const n of need) expect(labels.some((l) => l.startsWith(n)), `no axis is labelled ${n}: ${labels.join(" | ")}`);
  if (r.ladder?.length) expect((await tab.locator('[aria-labelledby="probes"] tbody tr').count()) === r.ladder.length, "the ladder is not the run's");
}

async function sweep(tab, runs, expect) {
  const rows = await cells(tab, '[aria-labelledby="sweep"] tbody tr');
  expect(rows.length === runs.length, `${rows.length} rows for ${runs.length} runs`);
  const titles = await texts(tab, '[aria-labelledby="shares"] thead th');
  const shares = await cells(tab, '[aria-labelledby="shares"] tbody tr');
  expect(shares.length === runs.length, `${shares.length} rows of shares for ${runs.length} runs`);
  shares.forEach((row, i) => {
    const sums = new Map((runs[i].stages ?? []).filter((s) => s.parent === "step" && s.exposed).map((s) => [s.name, s.exposed.runs.flat().reduce((a, b) => a + b, 0)]));
    const whole = [...sums.values()].reduce((a, b) => a + b, 0);
    row.forEach((cell, j) => {
      if (!cell.endsWith(" %") || cell.startsWith("<")) return;
      const share = (100 * (sums.get(titles[j]) ?? NaN)) / whole;
      expect(Math.abs(parseFloat(cell) - share) <= 0.051, `run ${i + 1}: ${titles[j]} is drawn as ${cell}, the data has ${share} %`);
    });
  });
  rows.forEach((row, i) => {
    const drawn = row.map(seconds).find((v) => !Number.isNaN(v));
    if (runs[i].status !== "invalid" && runs[i].step) expect(close(drawn, runs[i].step.median), `run ${i + 1} is drawn as ${drawn}, the data has ${runs[i].step.median}`);
  });
  const measured = runs.filter((r) => r.status !== "invalid" && r.step).length;
  const chart = tab.locator('svg[aria-labelledby^="scaling-chart-t"]');
  if (await chart.count()) {
    expect((await chart.locator(".mark").count()) >= measured, "a point of the scaling curve is missing");
    expect((await chart.locator(".axis-label").allTextContents()).some((t) => /^step time \((s|ms|us|ns)\)(, on a logarithmic axis)?$/.test(t)), "the scaling curve's axis has no unit");
  }
}

// answered checks that a page opens with the answer of its data.
async function answered(tab, document, expect) {
  expect((await tab.locator("header h1 .badge").textContent()) === document.answer.verdict, "the verdict is not the heading");
  expect((await tab.locator("header .sentence").textContent()).replaceAll("\u00a0", " ") === document.answer.sentence, "the sentence below the heading is not the data's");
  const command = document.answer.action?.command;
  if (command) expect((await tab.locator("header .command code").textContent()).trim() === command, "the command of the answer is not whole");
}

async function comparison(tab, c, expect) {
  const rows = await cells(tab, '[aria-labelledby="metrics"] tbody tr');
  const same = c.metrics.filter((m) => m.verdict === 'same').length; // the others are the last to go
  expect(rows.length === Math.min(same, 300) + Math.min(c.metrics.length - same, 1500), `${rows.length} rows for ${c.metrics.length} metrics`);
  for (const row of rows) {
    const m = c.metrics.find((x) => x.name === row[0]);
    if (!m) continue; // a long name is cut
    if (m.ratio !== null && row[3] !== "-") expect(Math.abs(Number(row[3].slice(1)) - m.ratio) <= 0.00051 * Math.max(1, m.ratio) + (m.ratio >= 10 ? 0.5 : 0), `${m.name}: drawn ${row[3]}, the data has ${m.ratio}`);
    expect(row[7] === m.verdict, `${m.name}: verdict ${row[7]}, the data has ${m.verdict}`);
  }
  const points = await tab.locator('svg[aria-labelledby^="effects-t"] .mark').count();
  const ratios = c.metrics.filter((m) => m.ratio !== null && m.ratio > 0 && !(m.exact && m.old === m.new)).length;
  expect(points === Math.min(ratios, 40), `${points} points for ${ratios} ratios`);
  const falls = await texts(tab, 'svg[aria-labelledby^="waterfall-t"] rect title');
  if (falls.length) {
    for (const cause of c.causes) if (cause.change) expect(falls.some((t) => t.startsWith(cause.stage + ": ")), `the waterfall lacks ${cause.stage}`);
    expect(falls[0].startsWith("before: ") && falls.at(-1).startsWith("after: "), "the waterfall does not lead from before to after");
    expect((await texts(tab, 'svg[aria-labelledby^="waterfall-t"] .axis-label'))[0].startsWith("step time ("), "the waterfall's axis has no unit");
  }
  const sampled = c.metrics.filter((m) => !m.exact && (m.samples?.old ?? m.samples?.new)?.flat().length).length;
  const hills = await tab.locator('svg[aria-labelledby^="overlay-t"] path.area').count();
  expect(hills === Math.min(sampled, 16) || sampled > 16, `${hills} distributions for ${sampled} metrics`);
  const differences = c.differences?.length ?? 0;
  expect((await tab.locator('[aria-labelledby="differences"] > .scroll tbody tr').count()) === differences, `not all of the ${differences} differences are shown`);
}

async function tune(tab, r, expect) {
  const ratios = [...(r.effects ?? []), ...(r.confirmations ?? [])].filter((e) => e.ratio > 0).length;
  expect((await tab.locator('svg[aria-labelledby^="effects-t"] .mark').count()) === ratios, `not ${ratios} effects in the plot`);
  expect((await tab.locator('[aria-labelledby="effects-of-knobs"] tbody tr').count()) === (r.effects?.length ?? 0), "an effect is missing from the table");
  for (const [i, c] of (r.curves ?? []).entries()) {
    const chart = tab.locator(`svg[aria-labelledby^="curve${i}-chart-t"]`);
    expect((await chart.locator(".mark").count()) === c.points.length, `the curve over ${c.knob} lacks a point`);
    if (c.knee) expect((await chart.textContent()).includes(`knee at ${c.knee}`), `the knee of ${c.knob} is not marked`);
    expect((await texts(tab, `svg[aria-labelledby^="curve${i}-chart-t"] .axis-label`)).includes(c.knob), "the curve's axis is not named");
  }
  const claims = await cells(tab, '[aria-labelledby="claims"] tbody tr');
  expect(claims.length === (r.claims?.length ?? 0), "a claim is missing");
  claims.forEach((row, i) => expect(row[0] === r.claims[i].id && row[5] === r.claims[i].verdict, `claim ${row[0]} is not drawn as it is`));
}
