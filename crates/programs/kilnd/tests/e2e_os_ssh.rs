//! OpenSSH reads the host keys that kilnd generates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use kilnd::os::ssh::HostKey;

#[test]
fn ssh_keygen_derives_the_public_half_from_the_private_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    for comment in ["root@node", "", "a longer comment, so that the padding has another length"] {
        let key = HostKey::random(comment).expect("a key");
        fs::write(&path, key.expose_private()).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode");
        let output = Command::new("ssh-keygen").arg("-y").arg("-f").arg(&path).output().expect("ssh-keygen");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), key.public().trim_end());
    }
}
