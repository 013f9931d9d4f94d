//! Selection of the login method.

use std::path::{Path, PathBuf};

use kiln_types::Secret;

use super::azure_json::AzureJson;
use super::cloud::Cloud;
use super::credential::{Identity, Login, ManagedIdentity, ServicePrincipal};
use super::environment::Environment;
use super::error::LoginError;

/// The login method that the user selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LoginChoice {
    /// The first available of: the given `azure.json`, a federated token file in the environment (workload identity), a client secret in
    /// the environment, the Azure CLI. A managed identity is never tried automatically: outside Azure the request takes over a minute to
    /// fail.
    #[default]
    Automatic,
    AzureJson(PathBuf),
    /// The system-assigned or a user-assigned identity of this machine.
    Managed(ManagedIdentity),
    /// The workload identity in the environment.
    Workload,
    /// The service principal in the environment.
    Environment,
    /// The account that is logged in to the Azure CLI.
    AzureCli,
}

/// Resolves the login method. `cloud` is the user's choice and overrides the file's. `AZURE_AUTHORITY_HOST` applies if the identity also
/// comes from the environment, as the workload identity webhook sets both.
pub fn choose(
    choice: &LoginChoice,
    azure_json: Option<&Path>,
    cloud: Option<Cloud>,
    environment: &Environment,
) -> Result<Login, LoginError> {
    let choice = match choice {
        LoginChoice::Automatic => automatic(azure_json, environment),
        other => other.clone(),
    };
    let from_environment = || {
        let cloud = cloud.clone().unwrap_or_else(Cloud::public);
        match environment.get(Environment::AUTHORITY_HOST) {
            Some(host) => cloud
                .with_authority(host)
                .map_err(|bad| LoginError::Variable { name: Environment::AUTHORITY_HOST, problem: bad.to_string() }),
            None => Ok(cloud),
        }
    };
    match choice {
        LoginChoice::AzureJson(path) => {
            let json = AzureJson::read(&path, None)?;
            Ok(Login { cloud: cloud.unwrap_or(json.cloud), identity: json.identity })
        }
        LoginChoice::Managed(which) => {
            Ok(Login { cloud: cloud.unwrap_or_else(Cloud::public), identity: Identity::Managed(which) })
        }
        LoginChoice::Workload => Ok(Login {
            cloud: from_environment()?,
            identity: Identity::Workload {
                tenant: environment.require(Environment::TENANT_ID)?.to_owned(),
                client_id: environment.require(Environment::CLIENT_ID)?.to_owned(),
                token_file: environment.require(Environment::FEDERATED_TOKEN_FILE)?.into(),
            },
        }),
        LoginChoice::Environment => Ok(Login {
            cloud: from_environment()?,
            identity: Identity::ServicePrincipal(ServicePrincipal {
                tenant: environment.require(Environment::TENANT_ID)?.to_owned(),
                client_id: environment.require(Environment::CLIENT_ID)?.to_owned(),
                secret: Secret::new(environment.require(Environment::CLIENT_SECRET)?),
            }),
        }),
        LoginChoice::AzureCli | LoginChoice::Automatic => {
            let tenant = environment.get(Environment::TENANT_ID).map(ToOwned::to_owned);
            Ok(Login { cloud: cloud.unwrap_or_else(Cloud::public), identity: Identity::AzureCli { tenant } })
        }
    }
}

fn automatic(azure_json: Option<&Path>, environment: &Environment) -> LoginChoice {
    if let Some(path) = azure_json {
        LoginChoice::AzureJson(path.to_owned())
    } else if environment.get(Environment::FEDERATED_TOKEN_FILE).is_some() {
        LoginChoice::Workload
    } else if environment.get(Environment::CLIENT_SECRET).is_some() {
        LoginChoice::Environment
    } else {
        LoginChoice::AzureCli
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().copied().collect()
    }

    #[test]
    fn automatic_choice_takes_the_first_available_method() {
        let token = (Environment::FEDERATED_TOKEN_FILE, "/var/run/token");
        let secret = (Environment::CLIENT_SECRET, "hunter2");
        let who = [(Environment::CLIENT_ID, "app"), (Environment::TENANT_ID, "t")];
        let kind = |variables: &[(&str, &str)]| {
            choose(&LoginChoice::Automatic, None, None, &environment(variables)).unwrap().identity.kind()
        };
        assert_eq!(kind(&[who[0], who[1], token, secret]), "a workload identity");
        assert_eq!(kind(&[who[0], who[1], secret]), "a service principal");
        assert_eq!(kind(&[who[0], who[1]]), "the Azure CLI login");
        let missing = Path::new("/nowhere/azure.json");
        let error = choose(&LoginChoice::Automatic, Some(missing), None, &environment(&[secret])).unwrap_err();
        assert!(error.to_string().contains("/nowhere/azure.json"), "{error}");
    }

    #[test]
    fn incomplete_explicit_choice_names_the_missing_variable() {
        let half = environment(&[(Environment::CLIENT_ID, "app"), (Environment::CLIENT_SECRET, "hunter2")]);
        let error = choose(&LoginChoice::Environment, None, None, &half).unwrap_err();
        assert_eq!(error.to_string(), "environment variable `AZURE_TENANT_ID`: not set");
    }

    #[test]
    fn authority_host_applies_to_identities_from_the_environment() {
        let all = environment(&[
            (Environment::CLIENT_ID, "app"),
            (Environment::CLIENT_SECRET, "hunter2"),
            (Environment::TENANT_ID, "t"),
            (Environment::AUTHORITY_HOST, "https://login.example/"),
        ]);
        let login = choose(&LoginChoice::Environment, None, Some(Cloud::china()), &all).unwrap();
        assert_eq!(login.cloud.authority.as_str(), "https://login.example/");
        assert_eq!(login.cloud.arm, Cloud::china().arm);
        assert!(!format!("{login:?} {all:?}").contains("hunter2"));
    }

    #[test]
    fn insecure_authority_error_names_the_variable() {
        let bad = environment(&[(Environment::AUTHORITY_HOST, "http://login.example")]);
        let error = choose(&LoginChoice::Environment, None, None, &bad).unwrap_err().to_string();
        assert!(error.contains("AZURE_AUTHORITY_HOST"), "{error}");
    }
}
