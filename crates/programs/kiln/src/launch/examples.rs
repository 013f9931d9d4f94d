//! What the help of each command shows.

pub(super) const TEMPLATE: &str = "Examples:
  kiln launch template --settings settings.yaml --node-pool pool.yaml --node-class class.yaml -o template.json
      Custom data, image and tags, as a node provider would take them; the file is closed to everybody else.
  kiln launch template --settings settings.yaml --node-class class.yaml --bootstrapper kubeadm-join";

pub(super) const CREATE: &str = "Examples:
  kiln launch create node-1 --settings settings.yaml --node-pool pool.yaml --node-class class.yaml
  kiln launch create node-1 --settings settings.yaml --node-class class.yaml --bootstrapper kilnd
      kiln's own document, with the token beside it, for an image with kilnd.
  kiln launch create node-1 --settings settings.yaml --pool general --detect
      Pool and class as the cluster has them; what no source says is looked for in the cluster and the cloud.";

pub(super) const LIST: &str = "Examples:
  kiln launch list --owner my-cluster
  kiln launch list --owner my-cluster -g my-group --output json";

pub(super) const DELETE: &str = "Example:
  kiln launch delete node-1 --owner my-cluster
      The machine with its interface and disk; one that was made for another owner is left alone.";

pub(super) const GC: &str = "Examples:
  kiln launch gc --owner my-cluster --dry-run
  kiln launch gc --owner my-cluster --older-than 2h";
