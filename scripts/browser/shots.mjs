// Takes pictures of pages: node shots.mjs CHROMIUM FOLDER OUT [PATTERN], each in light and dark, 1400 and 420 px wide.
// It prints the pages on which something reaches beyond the edge of a phone.
import { mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

const [executablePath, folder, out, pattern = ""] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
try {
  for (const file of readdirSync(folder).filter((f) => f.endsWith(".html") && new RegExp(pattern).test(f)).sort()) {
    for (const [width, height] of [[1400, 1000], [420, 900]]) {
      for (const colorScheme of ["light", "dark"]) {
        const context = await browser.newContext({ colorScheme, viewport: { width, height } });
        const tab = await context.newPage();
        await tab.goto("file://" + resolve(folder, file));
        const room = await tab.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        if (room[0] > room[1]) console.log(`${file}: ${room[0]} px wide in ${room[1]} px`);
        const tall = await tab.evaluate(() => document.documentElement.scrollHeight);
        await tab.setViewportSize({ width, height: Math.min(tall, 3200) });
        await tab.screenshot({ path: join(out, `${file.replace(".html", "")}-${width}-${colorScheme}.png`) });
        await context.close();
      }
    }
  }
} finally {
  await browser.close();
}
