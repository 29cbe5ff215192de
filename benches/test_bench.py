"""The basis of the figures: pairing, spread, the mix, the templates. `python3 -m unittest discover benches`."""

import dataclasses
import importlib.machinery
import importlib.util
import io
import json
import os
import socket
import sys
import tempfile
import threading
import types
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from bench import client, counts, machine, packages, phttp, process, report, servers  # noqa: E402
from bench.adaptation import every, order, verdict  # noqa: E402
from bench.adaptation.cache import sequence  # noqa: E402
from bench.results import Results, spread  # noqa: E402
from bench.workloads import BY_NAME, FILES, TARGETS, WEBSTONE_MIX, WEBSTONE_SELECTS_AT, Target  # noqa: E402


def script(name):
    """A script of this directory, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(HERE, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Figures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.results = Results(self.folder.name)

    def cell(self, server, repetition, cpu_us, status="ok", row="keepalive-64"):
        self.results.append("cell", row=row, server=server, repetition=repetition, status=status, cpu_us=cpu_us, why="-")

    def test_a_ratio_pairs_repetitions_and_skips_invalid_ones(self):
        for repetition, (ours, theirs) in enumerate([(6, 10), (12, 20), (9, 10)]):
            self.cell("weir", repetition, ours)
            self.cell("nginx", repetition, theirs)
        self.cell("weir", 3, 100)
        self.cell("nginx", 3, 1, status="invalid")
        self.assertEqual(self.results.ratio("keepalive-64", "weir", "nginx", "cpu_us"), (0.6, 0.6, 0.9))
        self.assertIsNone(self.results.ratio("keepalive-64", "weir", "h2o", "cpu_us"))

    def test_what_was_written_is_read_again_even_after_a_torn_line(self):
        self.cell("weir", 0, 7.0)
        with open(self.results.path, "a") as f:
            f.write('{"kind": "cell", "row": "keepa')
        again = Results(self.folder.name)
        self.assertTrue(again.finished("keepalive-64", "weir", 0))
        again.append("cell", row="large", server="weir", repetition=0, status="invalid", why="-")
        third = Results(self.folder.name)
        self.assertTrue(third.finished("keepalive-64", "weir", 0))
        self.assertFalse(third.finished("large", "weir", 0), "an invalid cell is measured again")
        self.assertEqual(len(third.cells), 2)

    def test_a_target_is_met_at_its_bound(self):
        self.assertTrue(Target("pipelined", "nginx", 0.2).met(0.2))
        self.assertFalse(Target("pipelined", "nginx", 0.2).met(0.21))
        self.assertTrue(Target("pipelined", "lighttpd", 5, "throughput").met(5.0))
        self.assertFalse(Target("pipelined", "lighttpd", 5, "throughput").met(4.9))

    def test_every_target_names_a_row_and_a_server(self):
        for target in TARGETS:
            self.assertIn(target.row, BY_NAME)
            self.assertIn(target.peer, servers.BY_NAME)

    def test_behind_tells_ties_from_defeats(self):
        for repetition, ours in enumerate([9, 11, 12]):
            self.cell("weir", repetition, ours)
            self.cell("nginx", repetition, 10)
            self.cell("h2o", repetition, 5)
            self.cell("lighttpd", repetition, 50)
        self.assertEqual(report.behind(self.results), [
            "- 1 KiB keep-alive, 64 connections: CPU per request is 1.10 of nginx's, within the spread; 2.20 of h2o's."])

    def test_spread(self):
        self.assertEqual(spread([3, 1, 2]), (2, 1, 3))
        self.assertIsNone(spread([]))

    def test_numbers_keep_three_digits(self):
        self.assertEqual([report.number(v) for v in (0.1234, 1.234, 12.34, 123.4, 123456.7, None)],
                         ["0.12", "1.23", "12.3", "123", "123,457", "-"])

    def test_the_results_of_a_document_are_replaced_and_nothing_else(self):
        path = os.path.join(self.folder.name, "document.md")
        with open(path, "w") as f:
            f.write(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
        report.write_into(path, "new")
        with open(path) as f:
            self.assertEqual(f.read(), f"before\n{report.BEGIN}\n\nnew\n{report.END}\nafter\n")


class Adaptations(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.results = Results(self.folder.name)

    def test_every_experiment_says_what_it_judges_and_has_a_place_in_the_document(self):
        with open(os.path.join(HERE, "../docs/adaptation.md")) as f:
            document = f.read()
        for name, experiment in every().items():
            with self.subTest(name):
                self.assertIn(experiment.JUDGED, experiment.SETTINGS)
                fields = {field for field, *_ in experiment.FIELDS}
                self.assertLessEqual({field for field, *_ in experiment.MEASURES}, fields)
                self.assertEqual(len(experiment.FIRST), 2)
                self.assertGreaterEqual(len(experiment.LOADS), 2, "loads that want opposite things")
                self.assertTrue(all("," not in setting for setting in experiment.SETTINGS))
                self.assertIn(f"<!-- {name}: begin -->", document)
                self.assertIn(f"<!-- {name}: end -->", document)

    def test_an_adaptation_is_judged_beside_the_best_and_the_worst_in_each_repetition(self):
        class Twice(every()["admission"]):
            JUDGED = "adaptive"
            SETTINGS = dict.fromkeys(("off", "fixed-5", "fixed-40", "adaptive"))
        # A machine half as fast in the second repetition.
        for repetition, speed in enumerate((1.0, 0.5, 1.0)):
            for setting, files in (("off", 100), ("fixed-5", 200), ("fixed-40", 150), ("adaptive", 196)):
                self.results.append("cell", row="admission/twice", server=setting, repetition=repetition, status="ok",
                                    files_per_s=files * speed, p99_ms=(5 if setting == "fixed-5" else 8) / speed, why="-")
        lines = verdict.lines(Twice, self.results, "admission/twice", "twice")
        self.assertEqual(len(lines), 2)
        self.assertIn("adaptive has 0.98 of the best of the others (fixed-5), 1.96 of the worst (off)", lines[0])
        self.assertTrue(lines[0].endswith("within 5 % of the best: yes."))
        self.assertIn("adaptive has 1.60 of the best of the others (fixed-5)", lines[1])
        self.assertTrue(lines[1].endswith("**no**."))
        self.assertEqual(verdict.lines(Twice, self.results, "admission/half", "half"), [])

    def test_a_sequence_is_its_seed_and_nothing_else(self):
        def made(name, seed):
            out = io.StringIO()
            sequence(out, name, seed, 2000)
            return out.getvalue()
        for name in every()["cache"].LOADS:
            self.assertEqual(made(name, 1), made(name, 1))
            self.assertNotEqual(made(name, 1), made(name, 2))
            self.assertEqual(made(name, 1).count("\n"), 2000)
        self.assertIn("/scan/", made("scans", 1))
        self.assertIn('"http://www.example.org/', made("moving", 1))

    def test_the_sizes_that_stand_for_a_distribution_have_its_mean(self):
        tail, low, high = order.TAIL, order.SMALLEST, order.LARGEST
        exact = (tail / (tail - 1)) * (low ** tail) * (low ** (1 - tail) - high ** (1 - tail)) / (1 - (low / high) ** tail)
        self.assertAlmostEqual(order.MEAN / exact, 1, delta=0.05)


    def test_the_order_of_the_line_is_held_beside_nginx(self):
        for repetition in range(2):
            for setting, mean, large in (("line-rate", 12, 125), ("nginx", 25, 100)):
                self.results.append("cell", row="order/heavy", server=setting, repetition=repetition, status="ok", mean_ms=mean,
                                    large_ms=large)
        lines = every()["order"].compared(self.results, "order/heavy", "heavy")
        self.assertEqual(len(lines), 2)
        self.assertTrue(lines[0].endswith("line-rate has 0.48 of nginx's; at most 0.5: yes."), lines[0])
        self.assertTrue(lines[1].endswith("line-rate has 1.25 of nginx's; at most 1.2: **no**."), lines[1])

    def test_the_largest_are_a_hundredth_of_all_answers(self):
        made = object.__new__(order.Order)
        made.files = {"heavy": [(f"/{step}.bin", size, 1) for step, size in enumerate(order.SIZES)], "uniform": [("/mean.bin", 5, 1)]}
        (smaller, most), (largest, part) = made.parts("heavy")
        self.assertEqual((len(smaller), len(largest), part, most + part), (order.STEPS - 4, 4, 0.01, 1))
        self.assertLess(max(size for _, size, _ in smaller), min(size for _, size, _ in largest))
        self.assertEqual(made.parts("uniform"), [(made.files["uniform"], 1)])


class Requests(unittest.TestCase):
    def test_the_mix_has_its_shares_the_same_order_and_one_length(self):
        row = BY_NAME["webstone"]
        text = row.script()
        self.assertEqual(text, row.script())
        requests = [text[at:at + row.request_len] for at in range(0, len(text), row.request_len)]
        for number, (file, times) in enumerate(WEBSTONE_MIX.items()):
            found = requests.count(row.request(file))
            self.assertEqual(found * 100, times * len(requests))
            self.assertEqual(row.request(file)[WEBSTONE_SELECTS_AT], ord(str(number)))
        self.assertEqual(row.mean_body(), sum(FILES[f] * n for f, n in WEBSTONE_MIX.items()) / 100)

    def test_a_pipeline_is_sixteen_requests(self):
        self.assertEqual(BY_NAME["pipelined"].script().count(b"\r\n\r\n"), 16)

    def test_a_result_with_errors_or_wrong_lengths_is_refused(self):
        row = BY_NAME["keepalive-64"]
        none = {"connect": 0, "read": 0, "write": 0, "status": 0, "timeout": 0}
        good = {"requests": 10, "bytes": 10 * (1024 + 200), "errors": none}
        self.assertIsNone(client.fault(row, good))
        self.assertIn("2 read errors", client.fault(row, {**good, "errors": {**none, "read": 2}}))
        self.assertIn("bytes per answer", client.fault(row, {**good, "bytes": 10 * 300}))
        self.assertIn("no request", client.fault(row, {**good, "requests": 0}))


@unittest.skipUnless(machine.find(os.environ.get("CC", "cc")), "no C compiler")
class Drained(unittest.TestCase):
    """The client of the row `large`, which is a C program, against a server in a thread."""

    BODY = b"x" * FILES["1m.bin"]

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.client = client.Client(folder.name, 0)
        cls.row = dataclasses.replace(BY_NAME["large"], connections=2)

    def result(self, answer, closes=False):
        """The client's result if the server answers every request with these bytes, then closes if it `closes`."""
        listener = socket.create_server(("127.0.0.1", 0))

        def serve(s):
            with s:
                try:
                    while s.recv(65536):
                        s.sendall(answer)
                        if closes:
                            return
                except OSError:
                    pass  # the client has ended

        def accept():
            try:
                while True:
                    s, _ = listener.accept()
                    threading.Thread(target=serve, args=(s,), daemon=True).start()
            except OSError:
                pass  # the listener is shut down

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        with listener:
            try:
                return self.client.run(self.row, listener.getsockname()[1], 0.5)
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()

    def test_complete_responses_are_counted(self):
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(self.BODY), self.BODY)
        result = self.result(answer)
        self.assertIsNone(client.fault(self.row, result))
        # Each connection may have received a part of one more.
        self.assertGreaterEqual(result["bytes"], result["requests"] * len(answer))
        self.assertLess(result["bytes"], (result["requests"] + 2) * len(answer))
        self.assertTrue(0 < result["p50_us"] <= result["p90_us"] <= result["p99_us"] <= result["max_us"])
        self.assertGreaterEqual(result["duration_us"], 500_000)

    def test_an_announced_close_is_no_error(self):
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n"
        result = self.result(head + b"abc", closes=True)
        self.assertEqual(set(result["errors"].values()), {0})
        self.assertGreater(result["requests"], 2)

    def test_faults_of_the_server_are_errors(self):
        for kind, answer, closes in (
            ("read", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", True),
            ("read", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", False),
            ("read", b"HTTP/1.1 200 OK\r\n\r\nabc", True),
            ("read", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 4096, False),
            ("status", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", False),
        ):
            with self.subTest(answer=answer[:60]):
                result = self.result(answer, closes)
                self.assertEqual({name for name, count in result["errors"].items() if count}, {kind})
                self.assertIn(f"{kind} errors", client.fault(self.row, result))


class Servers(unittest.TestCase):
    def test_templates_lose_their_marks_and_comments(self):
        template = "# comment\nport @PORT@\n  @log@ log @RUN@/log\n@nolog@ quiet\n"
        values = {"PORT": 1, "RUN": "/r"}
        self.assertEqual(servers.fill(template, True, values), "port 1\nlog /r/log\n")
        self.assertEqual(servers.fill(template, False, values), "port 1\nquiet\n")

    def test_every_template_is_filled_completely(self):
        values = dict.fromkeys(("PORT", "ROOT", "RUN", "MODULES", "DESCRIPTORS", "NOPUSH"), "x")
        for server in servers.SERVERS:
            if server.template:
                with open(os.path.join(HERE, "peers", server.template)) as f:
                    text = f.read()
                for log in (True, False):
                    self.assertNotIn("@", servers.fill(text, log, values), server.name)

    def test_an_answer_is_read_to_its_end_and_no_further(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
            self.assertEqual(servers.read_answer(ours), (b"HTTP/1.1 200 OK\r\nContent-Length: 3", b"abc"))
            theirs.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab")
            theirs.shutdown(socket.SHUT_WR)
            with self.assertRaises(OSError):
                servers.read_answer(ours)

    def test_usage_of_this_process_grows_with_its_work(self):
        before = process.usage(os.getpid())
        sum(range(2_000_000))
        self.assertGreater(process.usage(os.getpid())["cpu_s"], before["cpu_s"])
        self.assertGreater(process.memory(os.getpid())["resident"], 1 << 20)
        self.assertIn(os.getpid(), process.tree(os.getppid()))

    def test_the_table_of_strace_is_read(self):
        table = ("% time     seconds  usecs/call     calls    errors syscall\n"
                 "------ ----------- ----------- --------- --------- ----------------\n"
                 " 50.00    0.000100           1       100         7 recvfrom\n"
                 " 50.00    0.000100           1       120           sendto\n"
                 "------ ----------- ----------- --------- --------- ----------------\n"
                 "100.00    0.000200                   220         7 total\n")
        self.assertEqual(counts.system_calls(table), {"recvfrom": 100, "sendto": 120})

    def test_what_callgrind_says_is_read(self):
        self.assertEqual(counts.instructions("==7== Events    : Ir\n==7== Collected : 250177\n"), 250177)
        self.assertIsNone(counts.instructions("valgrind: failed to start tool"))


class Reports(unittest.TestCase):
    """Reports of other load generators are read as their authors mean them."""

    def setUp(self):
        self.omission = script("omission")

    def test_wrk(self):
        said = ("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.50ms  200.00us   1.01s    99.00%\n"
                "    Req/Sec    10.00k   1.00k   12.00k    80.00%\n  Latency Distribution\n     50%  120.00us\n     75%    1.00ms\n"
                "     90%    2.00ms\n     99%    1.00s\n  100000 requests in 10.00s, 1.00MB read\n")
        self.assertEqual(self.omission.of_wrk(0, said),
                         {"requests": 100000, "mean_ms": 1.5, "p50_ms": 0.12, "p99_ms": 1000, "max_ms": 1010})

    def test_hey(self):
        said = ("  Slowest:\t0.9960 secs\n  Fastest:\t0.0001 secs\n  Average:\t0.0121 secs\n\nLatency distribution:\n"
                "  50% in 0.0008 secs\n  99% in 0.9940 secs\n\nStatus code distribution:\n  [200]\t808 responses\n")
        found = self.omission.of_hey(0, said)
        self.assertEqual(found["requests"], 808)
        for name, value in {"mean_ms": 12.1, "p50_ms": 0.8, "p99_ms": 994, "max_ms": 996}.items():
            self.assertAlmostEqual(found[name], value)

    def test_h2load(self):
        said = ("requests: 400 total, 400 started, 400 done, 399 succeeded, 1 failed, 0 errored, 0 timeout\n"
                "time for request:       36us       1.20s       145us        45us    75.50%\n")
        self.assertEqual(self.omission.of_h2load(0, said), {"requests": 399, "mean_ms": 0.145, "max_ms": 1200})

    def test_bursts_are_at_the_times_of_h2load(self):
        times = lambda *of: [round(at, 6) for at in self.omission.bursts(*of)]  # noqa: E731
        self.assertEqual(times(1000, 8, 0.025), [0] * 10 + [0.01] * 10 + [0.02] * 5)
        self.assertEqual(times(1000, 1, 0.02), [0] * 10 + [0.01] * 10)
        # A connection's requests are farther apart than the timer's shortest period.
        self.assertEqual(times(10, 2, 0.5), [0, 0, 0.2, 0.2, 0.4])
        lines = list(self.omission.access_log([0, 0.01], "/a"))
        self.assertEqual([json.loads(line)["time"] for line in lines],
                         ["2000-01-01T00:00:00.000000Z", "2000-01-01T00:00:00.010000Z"])

    def test_httperf(self):
        said = ("Total: connections 300 requests 300 replies 299 test-duration 0.997 s\n"
                "Connection time [ms]: min 0.1 avg 1.4 max 9.6 median 0.5 stddev 1.9\n")
        self.assertEqual(self.omission.of_httperf(0, said),
                         {"requests": 299, "mean_ms": 1.4, "p50_ms": 0.5, "max_ms": 9.6})

    def test_what_is_not_there_is_named(self):
        with self.assertRaises(Exception) as caught:
            self.omission.of_hey(1, "connection refused")
        self.assertIn("connection refused", str(caught.exception))


class Microscape(unittest.TestCase):
    """The NOTE's tables, from invented runs."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.bench = script("microscape")

    def cell(self, results, link, server, repetition, seconds, why=""):
        run = {"packets": 200, "bytes": 190_000, "seconds": seconds, "causes": {"connect": seconds / 2, "bandwidth": seconds / 2}}
        results.append("cell", row=link, server=server, repetition=repetition, status="invalid" if why else "ok", why=why,
                       fetches=2, off_sum=1e-9, off_wire=0.01, off_wire_ms=3.0, runs={"first": {"pipelined": run}, "again": {"pipelined": run}})

    def test_every_published_row_of_apache_is_there_with_its_provenance(self):
        found, provenance = self.bench.published()
        self.assertEqual(len(found), 8 + 8 + 6)
        self.assertEqual(found["lan", "http10", "first"], (489.4, 215536, 0.72))
        self.assertNotIn(("ppp", "http10", "first"), found)
        self.assertIn("unverified", provenance)

    def test_the_table_has_means_beside_the_published_row_and_says_what_is_missing(self):
        results = Results(self.folder.name)
        for repetition, seconds in enumerate([1.0, 1.5]):
            self.cell(results, "wan", "weir", repetition, seconds)
        self.cell(results, "wan", "nginx", 0, 1.0, "43 objects are missing")
        text = "\n".join(self.bench.table(results))
        self.assertIn("| first visit | pipelined | 200 / 190,000 / 1.25 ±0.35 | 43 objects are missing | 221 / 191,181 / 2.23 |", text)
        self.assertIn("differs from that by at most 1.00%, and by at most 3.0 ms in", text)
        self.assertIn("| wan | pipelined | 625 | 625 | 1,250 |", text)
        self.assertNotIn("**lan**", text)

    def test_a_fetch_that_does_not_add_up_is_invalid(self):
        fetch = {"failed": 0, "requests": 44, "repeated": 1, "seconds": 1.0}
        good = list(self.bench.fault(fetch, {"connect": 0.4, "bandwidth": 0.6}, {"seconds": 0.985}))
        self.assertEqual(good, [])
        for change, causes, wire, fragment in [
                ({"failed": 1}, 1.0, 1.0, "missing"), ({"requests": 43}, 1.0, 1.0, "43 requests"),
                ({}, 0.97, 0.97, "add up to 0.9700 s of 1.0000"), ({}, 1.0, 1.03, "the capture has 1.0300")]:
            faults = list(self.bench.fault({**fetch, **change}, {"all": causes}, {"seconds": wire}))
            self.assertEqual(len(faults), 1, faults)
            self.assertIn(fragment, faults[0])

    def test_the_configurations_of_debian_are_filled_completely(self):
        for name in ("nginx", "apache"):
            with open(os.path.join(HERE, "peers", f"debian-{name}.conf")) as f:
                self.assertNotIn("@", servers.fill(f.read(), False, dict.fromkeys(("PORT", "ROOT", "RUN", "MODULES"), "x")))


class Phttp(unittest.TestCase):
    def test_documents_come_whole_in_every_configuration(self):
        for separate, no_delay, close in [(False, False, True), (True, False, False), (False, True, False)]:
            flags = types.SimpleNamespace(separate_headers=separate, no_delay=no_delay, close=close, pace=False, report=None)
            with socket.create_server(("127.0.0.1", 0)) as listener:
                def answer(connections):
                    for _ in range(connections):
                        s, _ = listener.accept()
                        with s:
                            phttp.converse(s, flags)
                thread = threading.Thread(target=answer, args=(3 if close else 1,))
                thread.start()
                where = types.SimpleNamespace(address="127.0.0.1", port=listener.getsockname()[1])
                s = None
                for length in phttp.DOCUMENTS:
                    s = s or phttp.connected(where)
                    phttp.ask(s, length)
                    if close:
                        self.assertEqual(s.recv(1), b"")
                        s.close()
                        s = None
                if s:
                    s.close()
                thread.join()

    def test_a_header_has_the_papers_length(self):
        for close in (True, False):
            self.assertEqual(len(phttp.reply(1_866, close)), 226 + 1_866)

    def test_the_table_shows_stalls_beside_what_was_published(self):
        bench = script("phttp")
        with tempfile.TemporaryDirectory() as folder:
            results = Results(folder)
            results.append("cell", row="1997", server="P-HTTP", repetition=0, status="ok", pages_ms=[590.0, 600.0],
                           stalls={"6,651 at 1,686": 1.0, "1,866 at 9": 0.02})
            results.append("cell", row="queue of 6", server="keep", repetition=0, status="ok", before=16, after=16, repeated=9,
                           seconds=1.8)
            text = "\n".join(bench.table(results))
        self.assertIn("| P-HTTP | 605 ± 99 | 595.0 ± 7.1 [1.0: 6,651 at 1,686] | - |", text)
        self.assertIn("| queue of 6 | keep | 16 | 16 | 9 | 1.800 |", text)


class Http3(unittest.TestCase):
    def setUp(self):
        self.bench = script("h3")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = Results(folder.name)

    def cell(self, row, server, cpu_us, repetition=0):
        self.results.append("cell", row=row, server=server, repetition=repetition, status="ok", cpu_us=cpu_us, per_cpu_s=1e6 / cpu_us,
                            busy=1.0, client_busy=0.5, drops=0)

    def test_a_target_for_throughput_shows_its_ratio_and_is_met_by_a_large_one(self):
        for repetition, (ours, theirs) in enumerate([(100, 200), (100, 300), (100, 400)]):
            self.cell("1m", "weir", ours, repetition)
            self.cell("1m", "caddy", theirs, repetition)
        self.cell("10m", "weir", 100)
        self.cell("10m", "caddy", 240)
        text = "\n".join(self.bench.targets(self.results))
        self.assertIn("| `1m` | GB per CPU second at least 2.5 times Caddy | 3.00 (2.00-4.00) | met |", text)
        self.assertIn("| `10m` | GB per CPU second at least 2.5 times Caddy | 2.40 (2.40-2.40) | **missed** |", text)
        self.assertIn("| `1k` | CPU per request at most 0.30 of Caddy | - | not measured |", text)

    def test_a_second_of_processor_time_is_gigabytes_requests_or_handshakes(self):
        self.assertEqual(self.bench.per_second("10m", 200), "2.10 GB")
        self.assertEqual(self.bench.per_second("1k", 90_000), "90,000 requests")
        self.assertEqual(self.bench.per_second("handshake", 1_500), "1,500 handshakes")

    def test_a_peer_that_is_missing_is_in_the_table_with_the_reason(self):
        self.cell("1k", "weir", 10)
        self.results.append("cell", row="1k", server="nginx", repetition=0, status="skipped", why="nginx is not installed")
        self.assertIn("| `1k` | nginx | 0 | nginx is not installed | | | | | |", self.bench.table(self.results))

    def test_the_servers_take_turns_and_the_yardstick_is_measured_when_asked(self):
        flags = types.SimpleNamespace(reps=2, smoke=False, yardstick=False)
        cells = list(self.bench.cells(flags))
        first = [next(server for row, server, n in cells if (row, n) == ("1k", repetition)) for repetition in range(2)]
        self.assertEqual(first, ["weir", "weir-http2"])
        self.assertNotIn("quinn", {server for _, server, _ in cells})
        flags.yardstick = True
        self.assertEqual({row for row, server, _ in self.bench.cells(flags) if server == "quinn"}, {"1m", "10m"})

    def test_a_program_of_another_release_needs_its_loader(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(packages.Unavailable):
            packages.program(folder, "usr/sbin/nginx")


if __name__ == "__main__":
    unittest.main()
