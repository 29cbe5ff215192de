// One HTTP/2 connection with a large download that never ends, and a small urgent request every 20 ms after the last
// answer. Prints the times of the small ones in ms, and the rate of the download. Used by benches/h2-beside.
const http2 = require('node:http2');
const [url, seconds] = [process.argv[2], Number(process.argv[3])];
const session = http2.connect(url, { rejectUnauthorized: false, settings: { initialWindowSize: 6 << 20 } });
session.on('connect', () => session.setLocalWindowSize(15 << 20));
session.on('error', (error) => { console.error(String(error)); process.exit(1); });
let bytes = 0;
let done = false;
const times = [];

function ask(path, priority, ended) {
  const stream = session.request({ ':path': path, priority });
  stream.on('data', (data) => { bytes += data.length; });
  stream.on('end', () => { if (!done) ended(); });
  stream.on('error', () => {});
}
const large = () => ask('/large.bin', 'u=5', large);
function small() {
  const began = process.hrtime.bigint();
  ask('/small.css', 'u=0', () => {
    times.push(Number(process.hrtime.bigint() - began) / 1e6);
    setTimeout(small, 20);
  });
}
large();
setTimeout(small, 1000);
setTimeout(() => {
  done = true;
  console.log(JSON.stringify({ times, mbit: bytes * 8 / 1e6 / seconds }));
  process.exit(0);
}, seconds * 1000);
