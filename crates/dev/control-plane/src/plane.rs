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
use crate::folder::{LockedFolder, PlanesFolder, Record};
use crate::kubeconfig;
use crate::supervisor::{self, not_ready};
use crate::{Component, Credential, Error, Identity, Options, unique};

/// An idle machine needs 4 seconds; a machine that compiles on every core at the same time has taken twenty.
const READY_TIMEOUT: Duration = Duration::from_mins(3);

/// How long supervisors may take to kill their server and remove the folder.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A running control plane. It is stopped, and its folder removed, after its last user has gone.
pub struct ControlPlane {
    /// Our share of the lock that keeps it running; released when this value is dropped.
    users: Option<File>,
    folder: PathBuf,
    record: Record,
    admin: PathBuf,
    authority: Authority,
    pub(crate) programs: KubePrograms,
    /// The supervisors that are our child processes, to be reaped.
    supervisors: Mutex<Vec<Child>>,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready.
    pub fn start(options: &Options) -> Result<Self, Error> {
        Self::start_named(&unique("plane"), options, None)
    }

    pub(crate) fn start_named(name: &str, options: &Options, session: Option<PathBuf>) -> Result<Self, Error> {
        let cache = Cache::of_user()?;
        let programs = KubePrograms::of_user(cache.clone());
        let root = match &options.root {
            Some(root) => PlanesFolder::at(root)?,
            None => PlanesFolder::at(&cache.run_folder().join("kube"))?,
        };
        let held = root.create(name, options, session)?;
        let pki = held.folder.join("pki");
        fs::create_dir(&pki).map_err(Error::file(&pki))?;
        let authority = Authority::create(&pki)?;
        let plane = Self::new(held, authority, programs);
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

    /// Joins a control plane that another process started; `None` if it is being stopped.
    pub(crate) fn join(folder: &Path) -> Result<Option<Self>, Error> {
        let Some(held) = LockedFolder::join(folder)? else { return Ok(None) };
        let authority = Authority::open(&folder.join("pki"))?;
        let plane = Self::new(held, authority, KubePrograms::of_user(Cache::of_user()?));
        plane.wait_until_ready()?;
        Ok(Some(plane))
    }

    fn new(held: LockedFolder, authority: Authority, programs: KubePrograms) -> Self {
        let LockedFolder { folder, record, users } = held;
        let admin = folder.join("admin.kubeconfig");
        Self { users: Some(users), folder, record, admin, authority, programs, supervisors: Mutex::default() }
    }

    /// Releases our share of the lock without waiting: another process holds one.
    pub(crate) fn leave(mut self) {
        self.users = None;
        self.supervisors.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The URL of the API server.
    pub fn server(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The socket address of the API server.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.record.ports.api_server).into()
    }

    /// The CA certificate, PEM.
    pub fn authority(&self) -> &str {
        &self.authority.certificate
    }

    /// The kubeconfig of a cluster admin.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// Writes a kubeconfig for an identity to a new file.
    pub fn kubeconfig_for(&self, identity: &Identity) -> Result<PathBuf, Error> {
        self.write_kubeconfig(&unique("user"), identity)
    }

    /// Issues a client certificate.
    pub fn issue(&self, identity: &Identity) -> Result<Credential, Error> {
        self.authority.issue(identity)
    }

    /// The folder with logs, certificates and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log of a component so far.
    pub fn log(&self, component: Component) -> String {
        let path = self.folder.join(format!("{component}.log"));
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Creates a namespace for a test. With controllers it waits for the default service account, so that pods can be created.
    pub fn namespace(&self, prefix: &str) -> Result<String, Error> {
        let name = unique(prefix);
        self.run_kubectl(&["create", "namespace", &name])?;
        if self.record.options.controller_manager {
            self.wait_for_account(&name, Component::ControllerManager)?;
        }
        Ok(name)
    }

    /// The process ID of a server, while it runs.
    pub fn process(&self, component: Component) -> Option<u32> {
        supervisor::pair(&self.folder, component).and_then(|(server, _)| u32::try_from(server.id()).ok())
    }

    /// Stops the API server with SIGTERM; it stays down until [`ControlPlane::restart_api_server`].
    pub fn stop_api_server(&self) -> Result<(), Error> {
        self.end(Component::ApiServer, Signal::TERM)
    }

    /// Restarts the API server on the same port, and waits until it is ready.
    pub fn restart_api_server(&self) -> Result<(), Error> {
        self.end(Component::ApiServer, Signal::TERM)?;
        self.spawn(Component::ApiServer)?;
        self.wait_until_ready()
    }

    /// Kills etcd with SIGKILL; the API server stays up without its store.
    pub fn kill_etcd(&self) -> Result<(), Error> {
        self.kill(Component::Etcd)
    }

    /// Restarts etcd with its data, and waits until the API server is ready again.
    pub fn restart_etcd(&self) -> Result<(), Error> {
        self.end(Component::Etcd, Signal::KILL)?;
        self.spawn(Component::Etcd)?;
        self.wait_until_ready()
    }

    /// Kills any server with SIGKILL; it stays down until [`ControlPlane::restart`].
    pub fn kill(&self, component: Component) -> Result<(), Error> {
        self.end(component, Signal::KILL)
    }

    /// Restarts a killed server on the same ports, without waiting until it is ready.
    pub fn restart(&self, component: Component) -> Result<(), Error> {
        self.end(component, Signal::KILL)?;
        self.spawn(component)
    }

    /// Waits until the API server is ready.
    pub fn wait_until_ready(&self) -> Result<(), Error> {
        let address = self.address();
        let mut last = "nothing listens yet".to_owned();
        let ready = poll(Duration::from_millis(100), READY_TIMEOUT, || {
            for component in [Component::Etcd, Component::ApiServer] {
                if supervisor::pair(&self.folder, component).is_none() {
                    return Err(not_ready(component, &self.folder, "ended"));
                }
            }
            // kubectl costs a tenth of a second of CPU time, so it only runs once the port is open.
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
        let problem = || format!("was not ready within {} s ({last})", READY_TIMEOUT.as_secs());
        ready.ok_or_else(|| not_ready(Component::ApiServer, &self.folder, problem()))
    }

    /// Waits until the controller manager has created the service account of a namespace.
    fn wait_for_account(&self, namespace: &str, component: Component) -> Result<(), Error> {
        let found = poll(Duration::from_millis(100), READY_TIMEOUT, || {
            if supervisor::pair(&self.folder, component).is_none() {
                return Err(not_ready(component, &self.folder, "ended"));
            }
            let arguments = ["wait", "--for=create", "serviceaccount/default", "-n", namespace, "--timeout=5s"];
            Ok(self.run_kubectl(&arguments).ok())
        })?;
        let problem =
            || format!("created no service account in namespace `{namespace}` within {} s", READY_TIMEOUT.as_secs());
        found.map(drop).ok_or_else(|| not_ready(component, &self.folder, problem()))
    }

    fn spawn(&self, component: Component) -> Result<(), Error> {
        let arguments = component.arguments(&self.folder, self.record.ports, &self.record.options);
        let program = self.programs.find(component.program())?;
        let supervisor =
            supervisor::spawn(component, &program, &arguments, &self.folder, self.record.session.as_deref())?;
        self.supervisors.lock().unwrap_or_else(PoisonError::into_inner).push(supervisor);
        Ok(())
    }

    /// Stops a server and its supervisor. A server that ignores the signal is killed.
    fn end(&self, component: Component, signal: Signal) -> Result<(), Error> {
        let Some((server, supervisor)) = supervisor::pair(&self.folder, component) else {
            supervisor::forget(&self.folder, component);
            return Ok(());
        };
        server.signal(signal);
        let gone = || poll(Duration::from_millis(20), STOP_TIMEOUT, || Ok((!server.is_of(&self.folder)).then_some(())));
        if gone()?.is_none() {
            server.kill();
            gone()?.ok_or_else(|| self.still_running(&[server.id()]))?;
        }
        if supervisor.is_of(&self.folder) {
            supervisor.kill();
        }
        supervisor::forget(&self.folder, component);
        self.reap();
        Ok(())
    }

    /// Reaps supervisors that have ended.
    fn reap(&self) {
        let mut supervisors = self.supervisors.lock().unwrap_or_else(PoisonError::into_inner);
        supervisors.retain_mut(|supervisor| matches!(supervisor.try_wait(), Ok(None)));
    }

    fn still_running(&self, ids: &[i32]) -> Error {
        let processes = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Error::StillRunning { folder: self.folder.clone(), processes }
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
        // A shared control plane may be in use elsewhere, or stays for the next test binary: its supervisors decide.
        if self.users.take().is_none() || self.record.session.is_some() {
            return;
        }
        let mut supervisors = self.supervisors.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = poll(Duration::from_millis(10), STOP_TIMEOUT, || {
            supervisors.retain_mut(|supervisor| matches!(supervisor.try_wait(), Ok(None)));
            Ok(supervisors.is_empty().then_some(()))
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
