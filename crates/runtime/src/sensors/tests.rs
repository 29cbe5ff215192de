//! Readings of recorded machines, with control groups of version 1, 2 or none, and of this machine.

use super::*;
use std::fs;

/// A machine made of files.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str, files: &[(&str, &str)]) -> Machine {
        let root = std::env::temp_dir().join(format!("weir-sensors-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Machine(root)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const STAT: &str = "1 (weir) S 0 1 1 0 -1 0 0 0 3 0 10 20 0 0 20 0 1 0 5 0 100 0";

#[test]
fn version_1_bounds_memory() {
    let machine = Machine::new(
        "v1",
        &[
            ("proc/self/stat", STAT),
            ("proc/self/task/1/schedstat", "900 100 7"),
            ("proc/self/task/2/schedstat", "900 50 7"),
            ("proc/self/cgroup", "4:memory:/box/site\n2:cpu,cpuacct:/\n0::/\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
            ),
            (
                "proc/pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=10\n",
            ),
            (
                "proc/pressure/io",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=20\n",
            ),
            (
                "sys/fs/cgroup/memory/box/site/memory.stat",
                "cache 1\nhierarchical_memory_limit 142606336\ntotal_cache 5000\ntotal_rss 7000\n\
                 total_workingset_refault_file 12\n",
            ),
            ("sys/fs/cgroup/memory/box/site/memory.usage_in_bytes", "13000\n"),
        ],
    );
    let reading = Sensors::below(&machine.0).read(&[]);
    assert_eq!(
        reading.memory,
        Some(Memory {
            limit: Bytes(142_606_336),
            used: Bytes(13_000),
            files: Bytes(5000),
            anonymous: Bytes(7000),
            refaults: Some(12),
        })
    );
    assert_eq!(reading.stalled.memory, Some(Duration::from_micros(10)));
    assert_eq!(reading.stalled.io, Some(Duration::from_micros(20)));
    assert_eq!(reading.stalled.cpu, None, "a file that is not there is no zero");
    assert_eq!(reading.process.run_delay, Some(Duration::from_nanos(150)));
    assert_eq!(reading.process.major_faults, 3);
}

#[test]
fn version_2_bounds_memory_from_above_and_has_pressure_of_its_own() {
    let machine = Machine::new(
        "v2",
        &[
            ("proc/self/stat", STAT),
            ("proc/self/cgroup", "0::/kube/pod\n"),
            (
                "proc/self/mountinfo",
                "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
            ),
            ("proc/pressure/memory", "some total=1\n"),
            ("sys/fs/cgroup/kube/memory.max", "2000000\n"),
            ("sys/fs/cgroup/kube/pod/memory.max", "max\n"),
            ("sys/fs/cgroup/kube/pod/memory.current", "900000\n"),
            (
                "sys/fs/cgroup/kube/pod/memory.stat",
                "anon 100\nfile 200\nfile_mapped 5\n",
            ),
            (
                "sys/fs/cgroup/kube/pod/memory.pressure",
                "some avg10=0.00 total=99\nfull total=0\n",
            ),
        ],
    );
    let reading = Sensors::below(&machine.0).read(&[]);
    let memory = reading.memory.unwrap();
    assert_eq!((memory.limit, memory.used), (Bytes(2_000_000), Bytes(900_000)));
    assert_eq!(
        (memory.files, memory.anonymous, memory.refaults),
        (Bytes(200), Bytes(100), None)
    );
    assert_eq!(reading.stalled.memory, Some(Duration::from_micros(99)));
}

/// Recorded in groups of 256 MiB with a server that held connections: memory in use is what the kernel cannot drop.
#[test]
fn what_is_used_of_a_bound_leaves_out_what_can_be_dropped() {
    let version_1 = Machine::new(
        "demand-v1",
        &[
            ("proc/self/cgroup", "4:memory:/box\n0::/\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            (
                "sys/fs/cgroup/memory/box/memory.stat",
                "cache 9592832\nrss 70045696\nactive_file 1\nhierarchical_memory_limit 268435456\n\
                 total_cache 9592832\ntotal_rss 70045696\ntotal_inactive_file 4096\ntotal_active_file 9588736\n",
            ),
            ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "131072000\n"),
        ],
    );
    let used = |machine: &Machine| cgroup::Cgroup::find(&machine.0)?.demand();
    let of_box = used(&version_1).unwrap();
    assert_eq!(
        (of_box.bytes, of_box.limit),
        (131_072_000 - 9_592_832, 268_435_456)
    );
    assert_eq!(of_box.thousandths(), 452);
    // The nearest limit counts, with the use of its whole group.
    let version_2 = Machine::new(
        "demand-v2",
        &[
            ("proc/self/cgroup", "0::/kube/pod\n"),
            (
                "proc/self/mountinfo",
                "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            ("sys/fs/cgroup/kube/memory.max", "1000000\n"),
            ("sys/fs/cgroup/kube/memory.current", "950000\n"),
            (
                "sys/fs/cgroup/kube/memory.stat",
                "anon 800000\nactive_file 40000\ninactive_file 10000\n",
            ),
            ("sys/fs/cgroup/kube/pod/memory.max", "500000\n"),
            ("sys/fs/cgroup/kube/pod/memory.current", "300000\n"),
            (
                "sys/fs/cgroup/kube/pod/memory.stat",
                "anon 290000\nactive_file 0\ninactive_file 10000\n",
            ),
        ],
    );
    let above = used(&version_2).unwrap();
    assert_eq!((above.bytes, above.limit), (900_000, 1_000_000));
    let pod = version_2.0.join("sys/fs/cgroup/kube/pod/memory.current");
    fs::write(pod, "490000\n").unwrap();
    let own = used(&version_2).unwrap();
    assert_eq!((own.bytes, own.limit, own.thousandths()), (480_000, 500_000, 960));
    let free = Machine::new("demand-free", &[("proc/self/cgroup", "0::/\n")]);
    assert!(used(&free).is_none());
}

#[test]
fn without_a_bound_or_anything_at_all_it_says_so() {
    let unbounded = Machine::new(
        "free",
        &[
            ("proc/self/stat", STAT),
            ("proc/self/cgroup", "4:memory:/\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "hierarchical_memory_limit 9223372036854771712\ntotal_cache 1\ntotal_rss 1\n",
            ),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "2\n"),
        ],
    );
    assert_eq!(Sensors::below(&unbounded.0).read(&[]).memory, None);
    let nothing = Machine::new("nothing", &[("proc/self/stat", "")]);
    let reading = Sensors::below(&nothing.0).read(&[4_000_000_000]);
    assert_eq!((reading.memory, reading.stalled), (None, Stalled::default()));
}

#[test]
fn this_machine_can_be_read() {
    let sensors = Sensors::open();
    let before = sensors.read(&[]);
    let mut sum = 0u64;
    while sensors.read(&[]).process.cpu == before.process.cpu {
        sum = sum.wrapping_add(1);
    }
    let after = sensors.read(&[std::process::id()]);
    assert!(after.at > before.at && sum < u64::MAX);
    assert!(after.process.cpu > before.process.cpu);
    assert!(after.process.resident.0 > 1 << 20);
}
