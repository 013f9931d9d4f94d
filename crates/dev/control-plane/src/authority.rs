//! Certificates: the control plane's CA, its servers and its users.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::Error;

/// The names and addresses of the servers; the last address is that of the service `kubernetes`.
const NAMES: [&str; 6] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1"];

/// The identity of a client, as Kubernetes reads it from its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    /// At most two.
    pub groups: Vec<String>,
}

impl Identity {
    /// A user without groups, except those of every authenticated user.
    pub fn user(name: impl Into<String>) -> Self {
        Self { user: name.into(), groups: Vec::new() }
    }

    /// Adds a group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// A cluster admin.
    pub fn admin() -> Self {
        Self::user("admin").in_group("system:masters")
    }

    /// The kubelet of a node.
    pub fn node(name: &str) -> Self {
        Self::user(format!("system:node:{name}")).in_group("system:nodes")
    }
}

/// A certificate and its key, PEM. `Debug` does not print the key.
#[derive(Clone)]
pub struct Credential {
    pub certificate: String,
    /// PKCS #8.
    pub key: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("certificate", &self.certificate).field("key", &"***").finish()
    }
}

/// The CA of a control plane.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: String,
}

impl Authority {
    /// Creates the CA and all server certificates in this folder.
    pub(crate) fn create(folder: &Path) -> Result<Self, Error> {
        let key = key("the CA")?;
        let certificate = authority_params().self_signed(&key).map_err(failed("the CA"))?;
        let certificate = certificate.pem();
        write(&folder.join("ca.crt"), &certificate)?;
        write(&folder.join("ca.key"), &key.serialize_pem())?;
        let authority = Self { issuer: Issuer::new(authority_params(), key), certificate };

        let mut server = CertificateParams::new(NAMES.map(str::to_owned)).map_err(failed("the servers"))?;
        server.distinguished_name = named("kiln-control-plane");
        // etcd's peers, and kube-apiserver as client of etcd, use the same certificate.
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let server = authority.sign(server, "the servers")?;
        write(&folder.join("server.crt"), &server.certificate)?;
        write(&folder.join("server.key"), &server.key)?;

        let client = Identity::user("kube-apiserver-kubelet-client").in_group("system:masters");
        let client = authority.issue(&client)?;
        write(&folder.join("kubelet-client.crt"), &client.certificate)?;
        write(&folder.join("kubelet-client.key"), &client.key)?;

        let accounts = self::key("service accounts")?;
        write(&folder.join("service-account.key"), &accounts.serialize_pem())?;
        write(&folder.join("service-account.pub"), &accounts.public_key_pem())?;
        Ok(authority)
    }

    /// Opens the CA that [`Authority::create`] wrote to this folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, Error> {
        let read = |path: PathBuf| std::fs::read_to_string(&path).map_err(Error::file(&path));
        let key = KeyPair::from_pem(&read(folder.join("ca.key"))?).map_err(failed("the CA"))?;
        Ok(Self { issuer: Issuer::new(authority_params(), key), certificate: read(folder.join("ca.crt"))? })
    }

    /// Issues a client certificate.
    pub(crate) fn issue(&self, identity: &Identity) -> Result<Credential, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&identity.user);
        // rcgen stores one value per type; the same type by its OID counts as another one.
        let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        if identity.groups.len() > types.len() {
            return Err(Error::TooManyGroups { user: identity.user.clone(), groups: identity.groups.len() });
        }
        for (kind, group) in types.into_iter().zip(&identity.groups) {
            params.distinguished_name.push(kind, group.as_str());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, &identity.user)
    }

    fn sign(&self, mut params: CertificateParams, name: &str) -> Result<Credential, Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = key(name)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed(name))?;
        Ok(Credential { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("kiln control plane CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn key(name: &str) -> Result<KeyPair, Error> {
    KeyPair::generate().map_err(failed(name))
}

fn failed(name: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Certificate { name, source }
}

/// Writes a file that only its owner can read.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_does_not_print_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let credential = Authority::create(folder.path()).unwrap().issue(&Identity::node("n1")).unwrap();
        let secret = credential.key.lines().nth(1).unwrap();
        let debug = format!("{credential:?}");
        assert!(!debug.contains(secret) && debug.contains("***"), "{debug}");
    }

    #[test]
    fn third_group_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(folder.path()).unwrap();
        let two = Identity::user("u").in_group("a").in_group("b");
        assert!(authority.issue(&two).is_ok());
        let message = authority.issue(&two.in_group("c")).unwrap_err().to_string();
        assert!(message.contains("`u` has 3 groups"), "{message}");
    }
}
