//! A running control plane.

use std::fmt;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use test_deps::{Cache, KubePrograms};

use crate::authority::{self, Authority};
use crate::clock::poll;
use crate::folder::{Held, Record, Root};
use crate::keeper::{self, not_ready};
use crate::kubeconfig;
use crate::{Component, Credential, Error, Identity, Options, unique};

/// An idle machine needs 4 seconds; a machine that compiles on every core at the same time has taken twenty.
const READY: Duration = Duration::from_mins(3);

/// How long keepers may take to kill their server and remove the folder.
const GONE: Duration = Duration::from_secs(30);

/// A running control plane. It is stopped, and its folder removed, when the last user of it is gone.
pub struct ControlPlane {
    /// Our share of the lock that keeps it alive; taken when this value is dropped.
    users: Option<File>,
    folder: PathBuf,
    record: Record,
    admin: PathBuf,
    authority: Authority,
    pub(crate) programs: KubePrograms,
    /// The keepers that are our own children, to be waited for.
    keepers: Mutex<Vec<Child>>,
}

impl ControlPlane {
    /// Starts one of its own and waits until it is ready.
    pub fn start(options: &Options) -> Result<Self, Error> {
        Self::start_named(&unique("plane"), options, None)
    }

    pub(crate) fn start_named(name: &str, options: &Options, session: Option<PathBuf>) -> Result<Self, Error> {
        let cache = Cache::of_user()?;
        let programs = KubePrograms::of_user(cache.clone());
        let root = match &options.root {
            Some(root) => Root::at(root)?,
            None => Root::at(&cache.run_folder().join("kube"))?,
        };
        let held = root.create(name, options, session)?;
        let pki = held.folder.join("pki");
        fs::create_dir(&pki).map_err(Error::file(&pki))?;
        let authority = Authority::create(&pki)?;
        let plane = Self::of(held, authority, programs);
        plane.write_kubeconfig("admin", &Identity::admin())?;
        for (component, user) in [
            (Component::ControllerManager, "system:kube-controller-manager"),
            (Component::Scheduler, "system:kube-scheduler"),
        ] {
            plane.write_kubeconfig(component.program(), &Identity::user(user))?;
        }
        plane.spawn(Component::Etcd)?;
        plane.spawn(Component::ApiServer)?;
        plane.wait_until_ready()?;
        for component in [Component::ControllerManager, Component::Scheduler] {
            if component.is_in(options) {
                plane.spawn(component)?;
            }
        }
        if options.controller_manager {
            plane.wait_for_account("default", Component::ControllerManager)?;
        }
        Ok(plane)
    }

    /// Joins one that another process started; `None` when it is on its way out.
    pub(crate) fn join(folder: &Path) -> Result<Option<Self>, Error> {
        let Some(held) = Held::join(folder)? else { return Ok(None) };
        let authority = Authority::open(&folder.join("pki"))?;
        let plane = Self::of(held, authority, KubePrograms::of_user(Cache::of_user()?));
        plane.wait_until_ready()?;
        Ok(Some(plane))
    }

    fn of(held: Held, authority: Authority, programs: KubePrograms) -> Self {
        let Held { folder, record, users } = held;
        let admin = folder.join("admin.kubeconfig");
        Self { users: Some(users), folder, record, admin, authority, programs, keepers: Mutex::default() }
    }

    /// Lets go of it without waiting: somebody else holds it.
    pub(crate) fn leave(mut self) {
        self.users = None;
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The URL of the API server.
    pub fn server(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The address of the API server.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.record.ports.api_server).into()
    }

    /// The certificate of its authority, PEM.
    pub fn authority(&self) -> &str {
        &self.authority.certificate
    }

    /// The kubeconfig of somebody who may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// A kubeconfig for anybody, in a file of its own.
    pub fn kubeconfig_for(&self, identity: &Identity) -> Result<PathBuf, Error> {
        self.write_kubeconfig(&unique("user"), identity)
    }

    /// A client certificate for anybody.
    pub fn issue(&self, identity: &Identity) -> Result<Credential, Error> {
        self.authority.issue(identity)
    }

    /// Its folder: logs, certificates, the store.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log of a server.
    pub fn log(&self, component: Component) -> String {
        let path = self.folder.join(format!("{component}.log"));
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Makes a namespace of its own for a test. With controllers it has its service account already, so that pods can be created.
    pub fn namespace(&self, prefix: &str) -> Result<String, Error> {
        let name = unique(prefix);
        self.run_kubectl(&["create", "namespace", &name])?;
        if self.record.options.controller_manager {
            self.wait_for_account(&name, Component::ControllerManager)?;
        }
        Ok(name)
    }

    /// The id of a server's process, while it runs.
    pub fn process(&self, component: Component) -> Option<u32> {
        keeper::pair(&self.folder, component).and_then(|(server, _)| u32::try_from(server.id()).ok())
    }

    /// Stops the API server as a service manager would; it stays down until [`ControlPlane::restart_api_server`].
    pub fn stop_api_server(&self) -> Result<(), Error> {
        self.end(Component::ApiServer, Signal::TERM)
    }

    /// Starts the API server again, on the same port, and waits until it is ready.
    pub fn restart_api_server(&self) -> Result<(), Error> {
        self.end(Component::ApiServer, Signal::TERM)?;
        self.spawn(Component::ApiServer)?;
        self.wait_until_ready()
    }

    /// Kills etcd as a power cut would; the API server stays up and has nothing to ask.
    pub fn kill_etcd(&self) -> Result<(), Error> {
        self.kill(Component::Etcd)
    }

    /// Starts etcd again with its data, and waits until the API server is ready again.
    pub fn restart_etcd(&self) -> Result<(), Error> {
        self.end(Component::Etcd, Signal::KILL)?;
        self.spawn(Component::Etcd)?;
        self.wait_until_ready()
    }

    /// Kills any server as a power cut would; it stays down until [`ControlPlane::start_again`].
    pub fn kill(&self, component: Component) -> Result<(), Error> {
        self.end(component, Signal::KILL)
    }

    /// Starts a server that was killed, on the same ports, without waiting for anything.
    pub fn start_again(&self, component: Component) -> Result<(), Error> {
        self.end(component, Signal::KILL)?;
        self.spawn(component)
    }

    /// Waits until the API server says that it is ready.
    pub fn wait_until_ready(&self) -> Result<(), Error> {
        let address = self.address();
        let mut last = "nothing listens yet".to_owned();
        let ready = poll(Duration::from_millis(100), READY, || {
            for component in [Component::Etcd, Component::ApiServer] {
                if keeper::pair(&self.folder, component).is_none() {
                    return Err(not_ready(component, &self.folder, "ended"));
                }
            }
            // kubectl costs a tenth of a second of CPU: not asked before there is somebody to ask.
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
                return Ok(None);
            }
            match self.run_kubectl(&["get", "--raw", "/readyz", "--request-timeout", "10s"]) {
                Ok(_) => Ok(Some(())),
                Err(error) => {
                    last = error.to_string();
                    Ok(None)
                }
            }
        })?;
        let what = || format!("was not ready within {} s ({last})", READY.as_secs());
        ready.ok_or_else(|| not_ready(Component::ApiServer, &self.folder, what()))
    }

    /// Waits until the controller manager has given a namespace its service account.
    fn wait_for_account(&self, namespace: &str, component: Component) -> Result<(), Error> {
        let found = poll(Duration::from_millis(100), READY, || {
            if keeper::pair(&self.folder, component).is_none() {
                return Err(not_ready(component, &self.folder, "ended"));
            }
            let arguments = ["wait", "--for=create", "serviceaccount/default", "-n", namespace, "--timeout=5s"];
            Ok(self.run_kubectl(&arguments).ok())
        })?;
        let what = || format!("gave the namespace `{namespace}` no service account within {} s", READY.as_secs());
        found.map(drop).ok_or_else(|| not_ready(component, &self.folder, what()))
    }

    fn spawn(&self, component: Component) -> Result<(), Error> {
        let arguments = component.arguments(&self.folder, self.record.ports, &self.record.options);
        let program = self.programs.find(component.program())?;
        let keeper = keeper::spawn(component, &program, &arguments, &self.folder, self.record.session.as_deref())?;
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner).push(keeper);
        Ok(())
    }

    /// Ends a server and its keeper. One that does not hear the signal is killed.
    fn end(&self, component: Component, signal: Signal) -> Result<(), Error> {
        let Some((server, keeper)) = keeper::pair(&self.folder, component) else {
            keeper::forget(&self.folder, component);
            return Ok(());
        };
        server.signal(signal);
        let gone = || poll(Duration::from_millis(20), GONE, || Ok((!server.is_of(&self.folder)).then_some(())));
        if gone()?.is_none() {
            server.kill();
            gone()?.ok_or_else(|| self.lingers(&[server.id()]))?;
        }
        if keeper.is_of(&self.folder) {
            keeper.kill();
        }
        keeper::forget(&self.folder, component);
        self.reap();
        Ok(())
    }

    /// Collects keepers that have ended.
    fn reap(&self) {
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.retain_mut(|keeper| matches!(keeper.try_wait(), Ok(None)));
    }

    fn lingers(&self, ids: &[i32]) -> Error {
        let processes = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Error::Lingers { folder: self.folder.clone(), processes }
    }

    fn write_kubeconfig(&self, name: &str, identity: &Identity) -> Result<PathBuf, Error> {
        let credential = self.issue(identity)?;
        let text = kubeconfig::render(&self.server(), self.authority(), &identity.user, &credential);
        let path = self.folder.join(format!("{name}.kubeconfig"));
        authority::write(&path, &text)?;
        Ok(path)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // A shared one may be in use elsewhere, or is to stay for the next test binary: its keepers know.
        if self.users.take().is_none() || self.record.session.is_some() {
            return;
        }
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = poll(Duration::from_millis(10), GONE, || {
            keepers.retain_mut(|keeper| matches!(keeper.try_wait(), Ok(None)));
            Ok(keepers.is_empty().then_some(()))
        });
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane")
            .field("server", &self.server())
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
