//! Examples in the help of each command.

pub(super) const TEMPLATE: &str = "Examples:
  kiln launch template --settings settings.yaml --node-pool pool.yaml --node-class class.yaml --out template.json
      Custom data, image and tags for a node provider. The file has mode 0600, because custom data may contain secrets.
  kiln launch template --settings settings.yaml --node-class class.yaml --bootstrapper kubeadm-join";

pub(super) const CREATE: &str = "Examples:
  kiln launch create node-1 --settings settings.yaml --node-pool pool.yaml --node-class class.yaml
  kiln launch create node-1 --settings settings.yaml --node-class class.yaml --bootstrapper kilnd
      Starts the node with a NodeConfig and the bootstrap token; requires an image with kilnd.
  kiln launch create node-1 --settings settings.yaml --pool general --detect
      Reads the NodePool and its class from the cluster, and detects missing values in the cluster and in Azure.";

pub(super) const LIST: &str = "Examples:
  kiln launch list --owner my-cluster
  kiln launch list --owner my-cluster -g my-group --output json";

pub(super) const DELETE: &str = "Example:
  kiln launch delete node-1 --owner my-cluster
      Deletes the machine with its network interface and disk. A machine of another owner is not deleted.";

pub(super) const GC: &str = "Examples:
  kiln launch gc --owner my-cluster --dry-run
  kiln launch gc --owner my-cluster --older-than 2h";
