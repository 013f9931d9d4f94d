//! How the clones of a donor join the cluster.

use kiln_types::tags::{RECIPE_OF_IMAGE, RECIPE_TAG};
use kiln_types::{
    Inspection, JoinMode, NO_OP_CUSTOM_DATA, Pool, PoolName, RecipeRunner, RefuseReason, clone_credential, sha256_hex,
};

/// Why clones of a donor could not join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    /// The user asked for clones that join with what is in the image.
    #[error("{0}")]
    NotInImage(RefuseReason),
    /// The user asked for clones that run the recipe. A clone recognises by the credential on its disk what to do with it.
    #[error("a clone keeps the credential of the donor, so it would not run the pool's recipe again")]
    Kept,
    /// The user asked for clones that run the recipe.
    #[error("a clone cannot run the pool's recipe again: {0}")]
    NoRecipe(NoRecipe),
    #[error("{image}, and a clone cannot run the pool's recipe again: {recipe}")]
    Neither { image: RefuseReason, recipe: NoRecipe },
}

/// Why a clone would not run the pool's recipe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRecipe {
    #[error("an earlier run replaced the custom data of `{0}`, which `kiln prototype rollback --to original` restores")]
    Removed(PoolName),
    #[error("neither custom data nor a script extension of the pool configured the donor")]
    NothingRuns,
}

/// Chooses how clones join: as the user wants, else with what is in the image, else by the pool's recipe.
///
/// A donor whose credential is unknown is always refused: its clones would not know what to remove.
pub fn choose_join(wanted: Option<JoinMode>, inspection: &Inspection, pool: &Pool) -> Result<JoinMode, JoinRefusal> {
    let image = clone_credential(&inspection.join_credential);
    let recipe = find_recipe(inspection, pool);
    match (wanted, image) {
        (None | Some(JoinMode::Certificate), Ok(_)) => Ok(JoinMode::Certificate),
        (Some(JoinMode::Certificate), Err(reason)) | (_, Err(reason @ RefuseReason::Unknown { .. })) => {
            Err(JoinRefusal::NotInImage(reason))
        }
        (Some(JoinMode::Recipe), Ok(_)) => Err(JoinRefusal::Kept),
        (Some(JoinMode::Recipe), Err(_)) => recipe.map(|()| JoinMode::Recipe).map_err(JoinRefusal::NoRecipe),
        (None, Err(image)) => {
            recipe.map(|()| JoinMode::Recipe).map_err(|recipe| JoinRefusal::Neither { image, recipe })
        }
    }
}

/// Whether a clone would run a bootstrap of the pool's model. The cloud does not return custom data, so the donor's own copy shows that
/// there is some.
fn find_recipe(inspection: &Inspection, pool: &Pool) -> Result<(), NoRecipe> {
    if pool.tags.get(RECIPE_TAG).is_some_and(|recipe| recipe == RECIPE_OF_IMAGE) {
        return Err(NoRecipe::Removed(pool.name.clone()));
    }
    let no_op = sha256_hex(NO_OP_CUSTOM_DATA.as_bytes());
    let is_found = |runner: &RecipeRunner| match runner {
        RecipeRunner::CloudInit | RecipeRunner::Kilnd => {
            inspection.custom_data.sha256().is_some_and(|found| found != no_op)
        }
        RecipeRunner::ScriptExtension => pool.recipe.extensions.iter().any(kiln_types::Extension::is_custom_script),
    };
    if inspection.recipe_runners.iter().any(is_found) { Ok(()) } else { Err(NoRecipe::NothingRuns) }
}

#[cfg(test)]
mod tests {
    use kiln_types::{CustomData, JoinCredential, SecretBytes};

    use super::*;
    use crate::sample::{inspection, pool};

    fn donor(joined: JoinCredential, runners: &[RecipeRunner], custom_data: &str) -> Inspection {
        let custom_data = match custom_data {
            "" => CustomData::absent(),
            text => CustomData::found(SecretBytes::new(text)),
        };
        Inspection { join_credential: joined, recipe_runners: runners.to_vec(), custom_data, ..inspection() }
    }

    fn token() -> JoinCredential {
        JoinCredential::BootstrapToken { token_id: "abcdef".parse().unwrap(), renewed_by: None }
    }

    /// A worker after `kubeadm join`, which deletes the bootstrap kubeconfig.
    fn kubeadm() -> Inspection {
        let own = JoinCredential::NodeCertificate { path: "/etc/kubernetes/kubelet.conf".into() };
        donor(own, &[RecipeRunner::CloudInit], "#cloud-config\nruncmd: [kubeadm join --config /run/join.yaml]\n")
    }

    /// A pool without script extensions.
    fn plain_pool() -> Pool {
        let mut pool = pool();
        pool.recipe.extensions.clear();
        pool
    }

    #[test]
    fn kubeadm_donor_joins_by_the_recipe() {
        for wanted in [None, Some(JoinMode::Recipe)] {
            assert_eq!(choose_join(wanted, &kubeadm(), &plain_pool()), Ok(JoinMode::Recipe));
        }
        let refusal = choose_join(Some(JoinMode::Certificate), &kubeadm(), &plain_pool()).unwrap_err();
        assert!(refusal.to_string().contains("certificate of its own node"), "{refusal}");
    }

    #[test]
    fn capz_donor_joins_by_the_recipe_whatever_extensions_the_pool_has() {
        let mut pool = plain_pool();
        pool.recipe.extensions.push(kiln_types::Extension {
            name: "CAPZ.Linux.Bootstrapping".into(),
            publisher: "Microsoft.Azure.ContainerUpstream".into(),
            kind: "CAPZ.Linux.Bootstrapping".into(),
            ..kiln_types::Extension::default()
        });
        assert_eq!(choose_join(None, &kubeadm(), &pool), Ok(JoinMode::Recipe));
        let agent_only = donor(kubeadm().join_credential, &[RecipeRunner::ScriptExtension], "");
        let refusal = choose_join(None, &agent_only, &pool).unwrap_err();
        assert!(refusal.to_string().contains("neither custom data"), "{refusal}");
    }

    #[test]
    fn aks_style_donor_joins_by_the_recipe() {
        use RecipeRunner::{CloudInit, ScriptExtension};
        let aks = donor(token(), &[CloudInit, ScriptExtension], "#cloud-config\nwrite_files: []\n");
        assert_eq!(choose_join(None, &aks, &pool()), Ok(JoinMode::Recipe));
        // The script alone suffices, as long as the pool has it.
        let script = donor(token(), &[ScriptExtension], "");
        assert_eq!(choose_join(None, &script, &pool()), Ok(JoinMode::Recipe));
        let refusal = choose_join(None, &script, &plain_pool()).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the donor joined with bootstrap token `abcdef`, which no controller renews for new nodes, and a clone cannot \
             run the pool's recipe again: neither custom data nor a script extension of the pool \
             configured the donor"
        );
    }

    #[test]
    fn node_that_kilnd_configures_from_custom_data_joins_by_the_recipe() {
        let data = "Content-Type: multipart/mixed; boundary=\"b\"\n";
        assert_eq!(
            choose_join(None, &donor(token(), &[RecipeRunner::Kilnd], data), &plain_pool()),
            Ok(JoinMode::Recipe)
        );
    }

    #[test]
    fn renewed_token_comes_from_outside_and_not_from_the_recipe() {
        let renewed =
            JoinCredential::BootstrapToken { token_id: "abcdef".parse().unwrap(), renewed_by: Some("r".into()) };
        let donor = donor(renewed, &[RecipeRunner::CloudInit], "#!/bin/sh\njoin\n");
        assert_eq!(choose_join(None, &donor, &pool()), Ok(JoinMode::Certificate));
    }

    #[test]
    fn shared_certificate_joins_only_with_the_image() {
        let shared = JoinCredential::StaticClientCertificate { path: "/etc/kubernetes/certs/client.crt".into() };
        let donor = donor(shared, &[RecipeRunner::ScriptExtension], "");
        for wanted in [None, Some(JoinMode::Certificate)] {
            assert_eq!(choose_join(wanted, &donor, &pool()), Ok(JoinMode::Certificate));
        }
        assert_eq!(choose_join(Some(JoinMode::Recipe), &donor, &pool()), Err(JoinRefusal::Kept));
    }

    #[test]
    fn wanted_recipe_has_to_exist() {
        let refusal = choose_join(Some(JoinMode::Recipe), &donor(token(), &[], ""), &plain_pool()).unwrap_err();
        assert_eq!(refusal, JoinRefusal::NoRecipe(NoRecipe::NothingRuns));
    }

    #[test]
    fn exec_plugin_joins_with_the_image() {
        let plugin = donor(JoinCredential::ExecPlugin { command: "/opt/kubelogin".into() }, &[], "");
        for wanted in [None, Some(JoinMode::Certificate)] {
            assert_eq!(choose_join(wanted, &plugin, &pool()), Ok(JoinMode::Certificate));
        }
    }

    #[test]
    fn unknown_credential_is_refused_whatever_is_wanted() {
        let unknown = JoinCredential::Unknown { why: "no kubeconfig".into() };
        let donor = donor(unknown, &[RecipeRunner::CloudInit], "#!/bin/sh\njoin\n");
        for wanted in [None, Some(JoinMode::Recipe), Some(JoinMode::Certificate)] {
            let refusal = choose_join(wanted, &donor, &pool()).unwrap_err();
            assert!(refusal.to_string().contains("no kubeconfig"), "{refusal}");
        }
    }

    #[test]
    fn recipe_that_a_run_removed_cannot_be_run_again() {
        let mut pool = pool();
        pool.tags.insert(RECIPE_TAG.into(), RECIPE_OF_IMAGE.into());
        let refusal = choose_join(None, &kubeadm(), &pool).unwrap_err();
        assert!(refusal.to_string().contains("rollback --to original"), "{refusal}");
    }

    #[test]
    fn custom_data_without_effect_joins_no_clone() {
        let donor = donor(token(), &[RecipeRunner::CloudInit], NO_OP_CUSTOM_DATA);
        assert!(matches!(choose_join(None, &donor, &plain_pool()), Err(JoinRefusal::Neither { .. })));
    }
}
