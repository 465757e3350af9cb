// Opens files of stacks in speedscope, as a person who drops them there: node stacks.mjs CHROMIUM FILE...
// It exits 1 where speedscope does not read one, or reads another total than the file's weights have.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, ...files] = process.argv.slice(2);
const site = join(dirname(fileURLToPath(import.meta.url)), "node_modules/speedscope/dist/release");
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
  const file = files.find((f) => path === `/stacks/${basename(f)}`);
  try {
    const text = readFileSync(file ?? join(site, path));
    response.writeHead(200, { "content-type": types[path.slice(path.lastIndexOf("."))] ?? "application/octet-stream" });
    response.end(text);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const origin = `http://127.0.0.1:${server.address().port}`;

// milliseconds returns the sum of a file's weights.
function milliseconds(file) {
  const text = readFileSync(file, "utf8");
  if (file.endsWith(".json")) return JSON.parse(text).profiles[0].weights.reduce((a, b) => a + b, 0) / 1e6;
  return text.split("\n").reduce((sum, line) => sum + Number(/ (\d+)$/.exec(line)?.[1] ?? 0), 0) / 1e3;
}

// selfTime returns the sum of the column Self that speedscope shows, in milliseconds. Folded weights are microseconds.
function selfTime(text) {
  const units = { s: 1e3, ms: 1, "µs": 1e-3, ns: 1e-6, "": 1e-3 };
  return [...text.matchAll(/^\t([\d.,]+)(s|ms|µs|ns|) \(/gm)].reduce((sum, [, n, unit]) => sum + Number(n.replaceAll(",", "")) * units[unit], 0);
}

let failures = 0;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
for (const file of files) {
  const tab = await browser.newPage();
  await tab.goto(`${origin}/index.html#profileURL=${encodeURIComponent(`${origin}/stacks/${basename(file)}`)}`);
  const sandwich = tab.getByText("Sandwich");
  const want = milliseconds(file);
  try {
    await sandwich.click(); // a file that was not read has no views
    await tab.getByText("Symbol Name").waitFor();
  } catch {
    console.error(`FAIL ${file}: speedscope does not read it: ${await tab.evaluate(() => document.body.innerText)}`);
    failures++;
    continue;
  }
  const got = selfTime(await tab.evaluate(() => document.body.innerText));
  const ok = want > 0 && Math.abs(got - want) <= 0.01 * want; // its figures are rounded
  if (!ok) failures++;
  console.log(`${ok ? "ok" : "FAIL"} ${file}: ${got.toFixed(3)} ms in speedscope, ${want.toFixed(3)} ms in the file`);
}
await browser.close();
server.close();
process.exit(failures ? 1 : 0);
