//! The provisioning media of the machines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The `ovf-env.xml` with a document as custom data.
pub(crate) fn ovf_env(document: &str) -> String {
    let data = STANDARD.encode(document);
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:wa="http://schemas.microsoft.com/windowsazure">
  <wa:ProvisioningSection>
    <wa:Version>1.0</wa:Version>
    <LinuxProvisioningConfigurationSet xmlns="http://schemas.microsoft.com/windowsazure">
      <ConfigurationSetType>LinuxProvisioningConfiguration</ConfigurationSetType>
      <HostName>bench-node-0</HostName>
      <UserName>azureuser</UserName>
      <DisableSshPasswordAuthentication>true</DisableSshPasswordAuthentication>
      <CustomData>{data}</CustomData>
    </LinuxProvisioningConfigurationSet>
  </wa:ProvisioningSection>
  <wa:PlatformSettingsSection>
    <wa:Version>1.0</wa:Version>
    <PlatformSettings xmlns="http://schemas.microsoft.com/windowsazure">
      <ProvisionGuestAgent>false</ProvisionGuestAgent>
      <PreprovisionedVm>false</PreprovisionedVm>
    </PlatformSettings>
  </wa:PlatformSettingsSection>
</Environment>
"#
    )
}
