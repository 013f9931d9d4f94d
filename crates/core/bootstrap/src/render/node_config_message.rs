//! kiln's own document as custom data, with the token beside it.

use kiln_aks_formats::cloud_config::{Part, multipart};
use kiln_aks_formats::{Secret, to_base64};
use kiln_node_config::NodeConfig;
use kiln_node_config::media;
use kiln_node_config::spec::CredentialKind;

use crate::bootstrapper::RenderError;
use crate::derive::DeriveError;

/// base64 of a message: the document, and the token where the document says that the node finds it there.
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
