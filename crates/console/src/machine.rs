//! What the machine does to the server: pressure on its resources, and the processor limit of its control group.

use nagi_proc::{cgroup, counters, mounts};

/// Times in microseconds since some start; `None` where Linux does not say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    pub(crate) throttled_us: Option<f64>,
    pub(crate) io_us: Option<f64>,
    pub(crate) memory_us: Option<f64>,
    pub(crate) cpu_us: Option<f64>,
}

/// Reads the machine's figures; knows where they stand.
pub(crate) struct Reader {
    /// `cpu.stat` of the control group.
    cpu_stat: Option<String>,
}

impl Reader {
    pub(crate) fn new() -> Reader {
        let groups = || {
            cgroup::groups(&nagi_proc::text(cgroup::PATH)?, &nagi_proc::text(mounts::PATH)?, "cpu")
        };
        let folder = groups().and_then(|groups| groups.folders.into_iter().next());
        Reader { cpu_stat: folder.map(|folder| format!("{folder}/cpu.stat")) }
    }

    pub(crate) fn read(&self) -> Machine {
        let stat = self.cpu_stat.as_deref().and_then(nagi_proc::text);
        let pressure = |name: &str| {
            let text = nagi_proc::text(format!("/proc/pressure/{name}"))?;
            counters::stalled_us(&text).0.map(|us| us as f64)
        };
        Machine {
            throttled_us: stat.as_deref().and_then(throttled_us),
            io_us: pressure("io"),
            memory_us: pressure("memory"),
            cpu_us: pressure("cpu"),
        }
    }
}

/// Of `cpu.stat`, of either version of control groups.
fn throttled_us(text: &str) -> Option<f64> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<f64>().ok())
    };
    field("throttled_usec ").or_else(|| Some(field("throttled_time ")? / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups() {
        assert_eq!(throttled_us("usage_usec 5\nnr_throttled 1\nthrottled_usec 12\n"), Some(12.0));
        assert_eq!(throttled_us("nr_periods 0\nthrottled_time 12000\n"), Some(12.0));
        assert_eq!(throttled_us("usage_usec 5\n"), None);
    }
}
