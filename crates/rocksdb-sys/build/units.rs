//! RocksDB's sources as a few large translation units.
//!
//! Most of the time to compile a file of RocksDB is spent on its headers; files of a folder that are included one
//! after the other into one unit share them. Sources that Nagi never calls are left out: functions in `db/c.cc`
//! refer to them, but these functions are in sections of their own, which the linker drops with their references. A
//! call of one of them would be an undefined symbol.

use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// The number of units of [`Effort::Small`] for each concurrent compiler. Fewer units are less work in total (8
/// take 0.7 of the time of 20), but the wait for the last one is longer.
const UNITS_A_JOB: usize = 2;

/// Memory of a compiler for one of eight units, in KiB; one of sixteen takes slightly less than two thirds of it.
const UNIT_KIB: u64 = 2 << 20;

/// Prefixes of the sources that every read or written row passes through.
const FAST: &[&str] = &[
    "cache/clock_cache",
    "cache/lru_cache",
    "cache/sharded_cache",
    "db/db_iter",
    "db/dbformat",
    "db/lookup_key",
    "db/memtable",
    "memory/",
    "memtable/",
    "table/block_based/block.",
    "table/block_based/block_based_table_iterator",
    "table/block_based/block_based_table_reader",
    "table/block_based/index_reader_common",
    "table/get_context",
    "table/iterator",
    "table/merging_iterator",
    "util/coding",
    "util/dynamic_bloom",
    "util/hash",
];

/// Optimization level of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// For the sources of [`FAST`].
    Fast,
    /// Takes half the time to compile: only inlining.
    Small,
}

impl Effort {
    fn of(file: &str) -> Effort {
        match FAST.iter().any(|begin| file.starts_with(begin)) {
            true => Effort::Fast,
            false => Effort::Small,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Effort::Fast => "fast",
            Effort::Small => "small",
        }
    }

    fn set(self, build: &mut cc::Build) {
        match self {
            Effort::Fast => _ = build.opt_level(3),
            Effort::Small => {
                build.opt_level(1);
                for flag in ["-finline-functions", "-finline-small-functions", "-fstrict-aliasing"]
                {
                    build.flag_if_supported(flag);
                }
            }
        }
    }
}

/// Prefixes of the sources that Nagi does not use.
const LEFT_OUT: &[&str] = &[
    "table/adaptive/",
    "test_util/transaction_test_util.cc",
    "tools/",
    "util/build_version.cc",
    "util/crc32c.cc",
    "util/xxhash.cc",
    "utilities/agg_merge/",
    "utilities/backup/",
    "utilities/blob_db/",
    "utilities/cache_dump_load",
    "utilities/cassandra/",
    "utilities/convenience/",
    "utilities/debug.cc",
    "utilities/env_mirror.cc",
    "utilities/fault_injection",
    "utilities/leveldb_options/",
    "utilities/option_change_migration/",
    "utilities/persistent_cache/",
    "utilities/secondary_index/",
    "utilities/simulator_cache/",
    "utilities/sorted_run_builder/",
    "utilities/transactions/lock/",
    "utilities/transactions/optimistic_",
    "utilities/transactions/pessimistic_",
    "utilities/transactions/transaction_",
    "utilities/transactions/write_",
    "utilities/ttl/",
];

/// Macros for every system.
const DEFINED: &[&str] = &[
    "HAVE_ALIGNED_NEW",
    "HAVE_UINT128_EXTENSION",
    "ROCKSDB_PLATFORM_POSIX",
    "ROCKSDB_LIB_IO_POSIX",
    // Nothing reads the counters of a thread, and each step of an iterator would add to some.
    "NPERF_CONTEXT",
];

const OF_LINUX: &[&str] = &[
    "OS_LINUX",
    "ROCKSDB_SCHED_GETCPU_PRESENT",
    "ROCKSDB_AUXV_GETAUXVAL_PRESENT",
    "ROCKSDB_FALLOCATE_PRESENT",
    "ROCKSDB_RANGESYNC_PRESENT",
];

/// The inputs of the compiler apart from the sources.
#[derive(Hash)]
pub(crate) struct Flags {
    linux: bool,
    x86_64: bool,
}

impl Flags {
    pub(crate) fn of_target() -> Self {
        let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
        Self {
            linux: is("CARGO_CFG_TARGET_OS", "linux"),
            x86_64: is("CARGO_CFG_TARGET_ARCH", "x86_64"),
        }
    }

    /// The macros that RocksDB is compiled with. C++ that includes its headers needs the same.
    pub(crate) fn definitions(&self) -> Vec<(&'static str, Option<&'static str>)> {
        let ones = ["SNAPPY", "LZ4", "ZSTD", "ZLIB", "NDEBUG"].map(|name| (name, Some("1")));
        let mut all = ones.to_vec();
        all.extend(DEFINED.iter().map(|name| (*name, None)));
        let of_system: &[&str] = if self.linux { OF_LINUX } else { &["OS_MACOSX"] };
        all.extend(of_system.iter().map(|name| (*name, None)));
        all
    }

    fn build(&self, sources: &Path) -> cc::Build {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++20").opt_level(2).debug(false).warnings(false).pic(true);
        build.flag("-include").flag("cstdint").flag("-ffunction-sections").flag("-fdata-sections");
        // Symbols that no other library calls are faster to compile and to call.
        build.flag("-fvisibility=hidden");
        build.includes(include_folders(sources));
        for (name, value) in self.definitions() {
            build.define(name, value);
        }
        if self.x86_64 {
            build.flag("-march=x86-64-v2");
        }
        build
    }
}

/// Where RocksDB's headers are, and those of the compressors.
pub(crate) fn include_folders(sources: &Path) -> Vec<PathBuf> {
    let own = ["rocksdb/include", "rocksdb", ".", "snappy"].map(|folder| sources.join(folder));
    own.into_iter().chain(super::codecs()).collect()
}

/// This crate's own units, each with its additional flags.
pub(crate) fn native_files() -> Vec<(PathBuf, &'static [&'static str])> {
    let list: &[(&str, &'static [&'static str])] = &[
        ("crc32c_pclmul.cc", &["-msse4.2", "-mpclmul"]),
        ("crc32c_portable.cc", &[]),
        ("dispatch.cc", &[]),
        ("xxhash_avx2.cc", &["-mavx2"]),
        ("xxhash_portable.cc", &[]),
    ];
    let folder = super::manifest_dir().join("native");
    list.iter().map(|(name, flags)| (folder.join(name), *flags)).collect()
}

/// Compiles everything into an archive in `folder`.
pub(crate) fn compile(sources: &Path, flags: &Flags, folder: &Path) {
    let mut others = vec![sources.join("build_version.cc")];
    others.extend(
        ["snappy.cc", "snappy-sinksource.cc", "snappy-c.cc"]
            .map(|file| sources.join("snappy").join(file)),
    );
    let mut objects = Vec::new();
    for effort in [Effort::Fast, Effort::Small] {
        let mut build = flags.build(sources);
        effort.set(&mut build);
        build.out_dir(folder).files(write_units(sources, folder, effort));
        objects.extend(build.compile_intermediates());
    }
    if flags.x86_64 {
        for (file, own) in native_files() {
            let mut build = flags.build(sources);
            own.iter().for_each(|flag| _ = build.flag(flag));
            objects.extend(build.out_dir(folder).file(file).compile_intermediates());
        }
    } else {
        others.extend(
            ["util/crc32c.cc", "util/xxhash.cc"].map(|file| sources.join("rocksdb").join(file)),
        );
        // It checks the processor at run time before it uses instructions that these flags allow.
        let mut build = flags.build(sources);
        build.flag_if_supported("-march=armv8-a+crc+crypto");
        let file = sources.join("rocksdb/util/crc32c_arm64.cc");
        objects.extend(build.out_dir(folder).file(file).compile_intermediates());
    }
    let mut build = flags.build(sources);
    build.cargo_metadata(false).out_dir(folder).files(others);
    objects.iter().for_each(|object| _ = build.object(object));
    build.compile("rocksdb");
}

/// The number of units of an effort, for a number of concurrent compilers and an amount of memory.
fn unit_count(effort: Effort, jobs: usize, memory_kib: u64) -> usize {
    let scarce = memory_kib / (jobs.max(1) as u64) < UNIT_KIB;
    match effort {
        Effort::Fast => jobs.clamp(if scarce { 4 } else { 2 }, 8),
        Effort::Small => (jobs * UNITS_A_JOB).clamp(if scarce { 12 } else { 3 }, 32),
    }
}

/// The available memory; the maximum if the system does not report it.
fn available_kib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(u64::MAX)
}

/// Writes the units of an effort. Each has neighbouring files and about as many bytes as the others.
fn write_units(sources: &Path, folder: &Path, effort: Effort) -> Vec<PathBuf> {
    let list = fs::read_to_string(sources.join("rocksdb_lib_sources.txt"))
        .expect("the crate lists its sources");
    let mut files: Vec<&str> = list
        .split_whitespace()
        .filter(|file| {
            !LEFT_OUT.iter().any(|left| file.starts_with(left))
                && *file != "util/crc32c_arm64.cc"
                && Effort::of(file) == effort
        })
        .collect();
    files.sort_by(|a, b| Path::new(a).parent().cmp(&Path::new(b).parent()));
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let mut units = vec![String::new(); unit_count(effort, jobs, available_kib())];
    // A small file takes time, too, for its headers.
    let weigh = |file: &str| {
        fs::metadata(sources.join("rocksdb").join(file)).map_or(0, |m| m.len()) + 8_000
    };
    let all: u64 = files.iter().map(|file| weigh(file)).sum();
    let mut before = 0;
    for file in files {
        let unit = (before * units.len() as u64 / all) as usize;
        writeln!(units[unit], "#include \"{file}\"").expect("a string takes it");
        before += weigh(file);
    }
    let write = |(number, text): (usize, &String)| {
        let path = folder.join(format!("{}_{number:02}.cc", effort.name()));
        fs::write(&path, text).expect("the cache's folder can be written");
        path
    };
    units.iter().enumerate().map(write).collect()
}
