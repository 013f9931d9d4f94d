//! Examples in the help of each command.

pub(super) const ROLLOUT: &str = "Examples:
  kiln rollout create -f web.yaml --pool web
  kiln rollout status --watch
  kiln rollout pause web-3f2a91c0
  kiln rollout undo web-3f2a91c0

`kiln freeze on` stops all rollouts. The guide is docs/guides/fleet.md.

Exit codes: 0 success; 1 failed, or the watched rollout did not complete; 2 invalid usage or input; 130 interrupted.";

pub(super) const CREATE: &str = "Examples:
  kiln rollout create -f web.yaml --pool web --dry-run
      Checks everything and shows which fields change and what that does to the nodes.
  kiln rollout create -f web.yaml --pool web --pool api --policy careful
  kiln rollout create --node-config web-3f2a91c0 --pool api --replacement never
      Uses a document that is in the cluster, and stops before it starts if a node would have to be drained.

The NodeConfig object has the name of the document and the first 8 digits of its digest. An object with the same content is reused.";

pub(super) const STATUS: &str = "Examples:
  kiln rollout status
  kiln rollout status web-3f2a91c0 --watch
      Ends with exit code 0 when the rollout completes, and with 1 when it halts, is rolled back or is aborted.
  kiln rollout status web-3f2a91c0 --output json";

pub(super) const LIST: &str = "Example:
  kiln rollout list";

pub(super) const PAUSE: &str = "Example:
  kiln rollout pause web-3f2a91c0";

pub(super) const RESUME: &str = "Example:
  kiln rollout resume web-3f2a91c0";

pub(super) const APPROVE: &str = "Examples:
  kiln rollout approve web-3f2a91c0
  kiln rollout approve web-3f2a91c0 --wave 4 --for 2h
      Allows all waves up to the fourth, if they start within two hours.";

pub(super) const ABORT: &str = "Example:
  kiln rollout abort web-3f2a91c0
      Nodes that are updated stay updated; `kiln rollout undo` returns them.";

pub(super) const UNDO: &str = "Examples:
  kiln rollout undo web-3f2a91c0 --dry-run
  kiln rollout undo web-3f2a91c0
      Aborts the rollout if it has not ended, and creates one to the previous target of each pool.";

pub(super) const HISTORY: &str = "Examples:
  kiln rollout history
  kiln rollout history --pool web --output json";
