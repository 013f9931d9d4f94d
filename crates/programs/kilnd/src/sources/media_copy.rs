//! The copy of the provisioning media in waagent's folder. waagent and cloud-init make it, without the password, and may eject the media
//! before kilnd reads it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use crate::os::clock;
use crate::sources::dmi::{VmId, vm_id};
use crate::sources::endpoints::Endpoints;
use crate::sources::error::Error;
use crate::sources::ovf::OvfEnv;

/// Below [`Endpoints::var_lib`].
const COPY: &str = "waagent/ovf-env.xml";
/// The VM id of the machine that the agents provisioned: waagent's file, and cloud-init's.
const OWNERS: [&str; 2] = ["waagent/provisioned", "cloud/data/instance-id"];

/// The content of the copy; none if there is none, or if it is another machine's.
pub(super) fn ovf_env_copy(endpoints: &Endpoints) -> Result<Option<OvfEnv>, Error> {
    let path = endpoints.var_lib.join(COPY);
    let failed = |source| Error::Read { path: path.clone(), source };
    let written = match fs::metadata(&path) {
        Ok(metadata) => Duration::from_secs(u64::try_from(metadata.ctime()).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    let read = |name: &&str| fs::read_to_string(endpoints.var_lib.join(name)).ok()?.parse::<VmId>().ok();
    let owners: Vec<VmId> = OWNERS.iter().filter_map(read).collect();
    let booted = clock::wall().saturating_sub(clock::boot_time());
    if !is_own(&owners, vm_id(endpoints).ok().as_ref(), written, booted) {
        return Ok(None);
    }
    let bytes = fs::read(&path).map_err(failed)?;
    OvfEnv::parse(&bytes).map(Some).map_err(|source| Error::Ovf { origin: path.display().to_string(), source })
}

/// Whether the copy is this machine's. An image that was not cleaned has that of the machine on which it was built. The agents record their
/// machine only after they have made the copy, so until then it counts if it was made since this machine booted.
fn is_own(owners: &[VmId], machine: Option<&VmId>, written: Duration, booted: Duration) -> bool {
    match machine {
        Some(machine) if owners.iter().any(|owner| owner.is_same_machine(machine)) => true,
        Some(_) if !owners.is_empty() => false,
        // The clock counts whole seconds in one place and fractions in the other.
        _ => written + Duration::from_secs(1) >= booted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVF: &str = "<Environment><LinuxProvisioningConfigurationSet><HostName>n</HostName></LinuxProvisioningConfigurationSet></Environment>";

    fn id(last: u8) -> VmId {
        format!("16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e{last:02x}").parse().expect("an id")
    }

    #[test]
    fn copy_counts_if_its_owner_is_this_machine_or_it_is_new() {
        let (before, boot, after) = (Duration::from_secs(10), Duration::from_secs(100), Duration::from_secs(101));
        assert!(is_own(&[id(1)], Some(&id(1)), before, boot), "from an interrupted first boot");
        assert!(!is_own(&[id(2)], Some(&id(1)), after, boot), "another machine's");
        assert!(is_own(&[], Some(&id(1)), after, boot), "made a moment ago");
        assert!(!is_own(&[], Some(&id(1)), before, boot), "left in the image");
        assert!(is_own(&[id(1).swapped()], Some(&id(1)), before, boot), "the other byte order");
    }

    #[test]
    fn copy_is_read_from_waagents_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let endpoints =
            Endpoints { var_lib: folder.path().to_owned(), dmi: folder.path().to_owned(), ..Endpoints::default() };
        assert_eq!(ovf_env_copy(&endpoints).expect("none"), None);
        fs::create_dir_all(folder.path().join("waagent")).expect("a folder");
        fs::write(folder.path().join(COPY), OVF).expect("written");
        fs::write(folder.path().join("product_uuid"), id(1).as_str()).expect("written");
        let found = ovf_env_copy(&endpoints).expect("read").expect("made since boot");
        assert_eq!(found.host_name.as_deref(), Some("n"));
        fs::write(folder.path().join(OWNERS[0]), id(2).as_str()).expect("written");
        assert_eq!(ovf_env_copy(&endpoints).expect("read"), None, "another machine's");
    }
}
