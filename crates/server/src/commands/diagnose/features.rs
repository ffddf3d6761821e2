//! `features`: optional features, for the oldest tools.

use crate::core::command::prelude::*;

pub(in crate::commands) static FEATURES: Command = Command {
    facts: Facts {
        name: "features",
        help: "Optional features of this build.",
        before_login: true,
        ..Facts::ROW
    },
    run: |cx, req, out| {
        if args::read::<Truthy>(req.body, "features", "oidReset")?.0 {
            // The command needs no login, but this argument does.
            if !cx.asking().on_cluster(Action::OidReset) {
                return Err(crate::core::access::refusal(req));
            }
            out.put("oidMachineOld", 0);
        }
        let id = cx.server.identity.oids.next(0);
        out.put("oidMachine", i32::from_be_bytes([0, id[4], id[5], id[6]]));
        Ok(())
    },
    ..Command::ROW
};
