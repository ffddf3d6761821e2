//! The thread limit of a control group.
use super::prelude::*;

pub(super) static CGROUP_PIDS: Check = Check {
    name: "cgroup_pids",
    title: "thread limit of the control group",
    reads: &[cgroup::MEMBERSHIP, mounts::PATH, limits::TABLE],
    is_measured: false,
    run,
};

fn run(facts: &Facts) -> Verdict {
    let Some(groups) = cgroup::groups(facts, "pids")? else {
        return good("no control group");
    };
    let Some((limit, path)) = cgroup::least(facts, &groups, "pids.max") else {
        return good("no limit");
    };
    let needed = limits::threads(facts)?;
    if limit >= needed {
        return good(limit.to_string());
    }
    found(
        Warning,
        format!("The control group allows {limit} threads, {needed} may be needed"),
        "a connection is a thread: past the limit new connections are refused",
        format!("echo {needed} > {path}   (systemd: TasksMax=infinity; docker: --pids-limit -1)"),
    )
    .logged_as_found("CONTROL", 8_210_004)
    .verdict()
}
