//! Valid inputs of the parsers, which the fuzzer mutates.

/// A recorded capture, and small ones with properties that it lacks.
pub(crate) fn captures() -> Vec<String> {
    let recorded = format!("{}\n{}", include_str!("../recorded/manager.txt"), include_str!("../recorded/units.txt"));
    let late = "UserspaceTimestampMonotonic=1000000\nFinishTimestampMonotonic=9000000\nInitRDTimestampMonotonic=400000\n\
                FirmwareTimestampMonotonic=700000\nLoaderTimestampMonotonic=300000\nUnitsLoadFinishTimestampMonotonic=1200000\n\n\
                Id=multi-user.target\nNames=multi-user.target default.target\nAfter=a.service\n\
                InactiveExitTimestampMonotonic=4100000\nActiveEnterTimestampMonotonic=4100000\nInactiveEnterTimestampMonotonic=0\n\n\
                Id=a.service\nAfter=\"dev-x\\\\x2dy.device\" b.service\nTriggeredBy=a.timer\nResult=exit-code\nConditionResult=yes\n\
                InactiveExitTimestampMonotonic=1450000\nActiveEnterTimestampMonotonic=0\nInactiveEnterTimestampMonotonic=3950000\n\n\
                Id=b.service\nAfter=a.service\nLoadState=not-found\nInactiveExitTimestampMonotonic=1450000\n\
                ActiveEnterTimestampMonotonic=1450000\n\n\
                Id=kubelet.service\nAfter=multi-user.target b.service\nWants=a.service\nType=notify\n\
                InactiveExitTimestampMonotonic=60000000\nActiveEnterTimestampMonotonic=60050000\nExecMainStartTimestampMonotonic=60010000\n";
    let pause = late.replace("Id=a.service", "Id=cloud-init-local.service").replace("3950000", "1000003950000");
    vec![recorded, late.to_owned(), pause, late.replace('\n', "\r\n")]
}

/// Pasted chains with old and new headers.
pub(crate) fn chains() -> Vec<String> {
    let pasted = [
        include_str!("../aks_boot/network.txt"),
        include_str!("../aks_boot/preprovisioned.txt"),
        include_str!("../aks_boot/cloud-final.txt"),
        include_str!("../aks_boot/walinuxagent.txt"),
        include_str!("../recorded/critical-chain.txt"),
        "a.target @3s\n├─b.service @1s +2s\n│ └─...\n└─c.service @1.5s +1.5s\n  └─-.mount\n",
    ];
    pasted.map(str::to_owned).to_vec()
}

pub(crate) fn budgets() -> Vec<String> {
    let all = [
        "# ours\nboot < 30s\nkubelet.service start < 12s\n",
        "docker.service time < 4s # quick\nboot < 1min 30s\n",
        "a.service start < 1h 2min 3.5s\n\n\nmulti-user.target time < 20ms",
    ];
    all.map(str::to_owned).to_vec()
}

/// Unit files and a drop-in.
pub(crate) fn unit_files() -> Vec<String> {
    let all = [
        "[Unit]\nDescription=of a node\nAfter=network-online.target containerd.service\nWants=network-online.target\n\n\
         [Service]\nExecStart=/usr/bin/kubelet \\\n  --config=/etc/kubelet \\\n  --v=2\nRestart=always\n\n[Install]\nWantedBy=multi-user.target\n",
        "[Unit]\nDefaultDependencies=no\nBefore=sysinit.target shutdown.target\nConflicts=shutdown.target\nAfter=\nAfter=a.service\n",
        "# comment\n; another\n[Unit]\nRequires=a.service b.target\nAfter=a.service b.target multi-user.target\n[Install]\nAlias=x.service\nRequiredBy=b.target\n",
        "[Unit]\nAfter=getty@tty1.service dev-sda1.device\nUpholds=u0.service\n",
    ];
    all.map(str::to_owned).to_vec()
}
