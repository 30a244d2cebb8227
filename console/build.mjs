// Bundles each library once; the result is committed, so that neither users nor CI need Node.
import { build } from "esbuild";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const vendor = "../src/streamling/console/static/vendor";
const forTests = "../tests/console/vendor";

rmSync(vendor, { recursive: true, force: true });
mkdirSync(vendor, { recursive: true });
mkdirSync(forTests, { recursive: true });

const result = await build({
  entryPoints: readdirSync("entries").map((name) => join("entries", name)),
  outdir: vendor,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  metafile: true,
});

copyFileSync("node_modules/uplot/dist/uPlot.min.css", join(vendor, "uplot.css"));
copyFileSync("node_modules/axe-core/axe.min.js", join(forTests, "axe.min.js"));
copyFileSync("node_modules/axe-core/LICENSE", join(forTests, "axe-core.LICENSE"));

const packageName = /node_modules\/((?:@[^/]+\/)?[^/]+)\//;
const packages = new Set(Object.keys(result.metafile.inputs).map((path) => packageName.exec(path)?.[1]).filter(Boolean));
packages.add("@dagrejs/graphlib"); // part of the bundle that dagre publishes
const licenses = [...packages].sort().map((name) => {
  const folder = join("node_modules", name);
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (!file || !existsSync(join(folder, file))) throw new Error(`${name} has no license file`);
  return `${name} ${version}\n${"=".repeat(78)}\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(vendor, "LICENSES.txt"), licenses.join("\n\n"));
