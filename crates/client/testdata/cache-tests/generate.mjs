// Writes cases.json: the cases of https://github.com/http-tests/cache-tests that its runner gives to a browser, one per line.
// node generate.mjs CHECKOUT > cases.json
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'

const checkout = resolve(process.argv[2])
const suites = (await import(pathToFileURL(`${checkout}/tests/index.mjs`))).default
const unused = new Set(['name', 'spec_anchors', 'browser_only', 'redirect'])
const lines = suites.flatMap(suite => suite.tests
  .filter(test => !test.cdn_only && !test.browser_skip)
  .map(test => JSON.stringify({ suite: suite.id, kind: 'required', ...test }, (key, value) => unused.has(key) ? undefined : value)))
console.log(`[\n${lines.join(',\n')}\n]`)
