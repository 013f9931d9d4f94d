//! A kubelet with just enough for the server to fetch logs: it completes task pods and serves the output of kilnd.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_kubernetes::{NodeName, TASK_LABEL};
use kube::api::{ListParams, Patch, PatchParams};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::real::{RealCluster, findings};

/// The kubelet of one node; it stops when it is dropped.
pub(crate) struct LogKubelet([JoinHandle<()>; 2]);

impl Drop for LogKubelet {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl LogKubelet {
    /// Starts the kubelet and announces its address in the Node object.
    pub(crate) async fn start(real: &RealCluster, node: &NodeName, namespace: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }});
        real.nodes().patch_status(node.as_str(), &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        Self([tokio::spawn(serve(listener, log.clone())), tokio::spawn(run(real.clone(), namespace.to_owned(), log))])
    }
}

/// Completes pods. The custom data in their log is encrypted to the key in their arguments.
async fn run(real: RealCluster, namespace: String, log: Arc<Mutex<String>>) {
    let pods = real.pods(&namespace);
    loop {
        for pod in pods.list(&ListParams::default().labels(TASK_LABEL)).await.map(|list| list.items).unwrap_or_default()
        {
            if pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Pending") {
                continue;
            }
            let arguments = pod.spec.and_then(|spec| spec.containers.into_iter().next()?.args).unwrap_or_default();
            if let Some(key) = arguments.iter().skip_while(|argument| *argument != "--custom-data-for").nth(1) {
                let sealed = kiln_tls::seal(&kiln_tls::SystemRandom::new(), key, b"abc").unwrap();
                *log.lock().unwrap() = json!({"inspection": findings(), "sealedCustomData": sealed}).to_string() + "\n";
            }
            let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
            let _ = pods.patch_status(&pod.metadata.name.unwrap(), &PatchParams::default(), &ended).await;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Serves container logs.
async fn serve(listener: TcpListener, log: Arc<Mutex<String>>) {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(kiln_tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let Ok(mut stream) = acceptor.accept(stream).await else { continue };
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut part = [0; 4096];
            match stream.read(&mut part).await {
                Ok(0) | Err(_) => break,
                Ok(read) => head.extend_from_slice(&part[..read]),
            }
        }
        let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
        let (code, text) = if line.contains("/containerLogs/") && line.contains("/inspect") {
            ("200 OK", log.lock().unwrap().clone())
        } else {
            ("404 Not Found", String::new())
        };
        let response = format!("HTTP/1.1 {code}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
        let _ = stream.write_all(response.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}
