//! `NodeConfig` as custom data: a MIME message with the document and the bootstrap token.

use kiln_aks_formats::cloud_config::{Part, multipart};
use kiln_aks_formats::{Secret, to_base64};
use kiln_node_config::NodeConfig;
use kiln_node_config::media;
use kiln_node_config::spec::CredentialKind;

use crate::bootstrapper::RenderError;
use crate::derive::DeriveError;

/// Returns the message in base64. It contains the token only if the node is configured to read it from custom data.
pub(super) fn node_config_message(config: &NodeConfig, token: &Secret) -> Result<Secret, RenderError> {
    let mut parts = vec![Part { content_type: media::NODE_CONFIG, body: Secret::new(config.to_json()) }];
    if config.spec.credential_from.kind == CredentialKind::CustomData {
        if token.expose().is_empty() {
            return Err(DeriveError::Missing(vec!["bootstrapToken"]).into());
        }
        parts.push(Part { content_type: media::CREDENTIAL, body: token.clone() });
    }
    Ok(Secret::new(to_base64(multipart(&parts)?.expose())))
}
