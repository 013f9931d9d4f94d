//! The cases of `tests/node` that need no more than a folder.

mod support;

use support::case::{Needs, check, names};

macro_rules! cases {
    ($($name:ident = $folder:literal),* $(,)?) => {
        const LISTED: &[&str] = &[$($folder),*];
        $(#[test]
        fn $name() {
            check($folder);
        })*
    };
}

cases! {
    boot_again_with_the_old_medium = "boot-again-with-the-old-medium",
    boot_again_without_network = "boot-again-without-network",
    boot_custom_data = "boot-custom-data",
    boot_custom_data_base64 = "boot-custom-data-base64",
    boot_custom_data_gzip = "boot-custom-data-gzip",
    boot_custom_data_mime = "boot-custom-data-mime",
    boot_custom_data_of_others = "boot-custom-data-of-others",
    boot_garbage = "boot-garbage",
    boot_invalid_document = "boot-invalid-document",
    boot_joined_node_keeps_its_credential = "boot-joined-node-keeps-its-credential",
    boot_metadata_403 = "boot-metadata-403",
    boot_metadata_410 = "boot-metadata-410",
    boot_metadata_429 = "boot-metadata-429",
    boot_metadata_down_for_two_minutes = "boot-metadata-down-for-two-minutes",
    boot_nothing_anywhere = "boot-nothing-anywhere",
    boot_of_a_clone_without_identity = "boot-of-a-clone-without-identity",
    boot_of_a_first_generation_machine = "boot-of-a-first-generation-machine",
    boot_platform_by_metadata = "boot-platform-by-metadata",
    boot_platform_gives_way_to_the_document = "boot-platform-gives-way-to-the-document",
    boot_platform_named_by_the_document = "boot-platform-named-by-the-document",
    boot_platform_never_answers = "boot-platform-never-answers",
    boot_preprovisioned = "boot-preprovisioned",
    boot_system_credential = "boot-system-credential",
    boot_trial_survives_one_restart = "boot-trial-survives-one-restart",
    boot_truncated_gzip = "boot-truncated-gzip",
    boot_user_data = "boot-user-data",
    boot_user_data_gzip = "boot-user-data-gzip",
    boot_wrong_signature = "boot-wrong-signature",
    came_back = "came-back",
    certificate_authorities = "certificate-authorities",
    cgroup_driver = "cgroup-driver",
    containerd_1 = "containerd-1",
    containerd_2 = "containerd-2",
    credential_client_certificate = "credential-client-certificate",
    credential_exposed = "credential-exposed",
    credential_garbage = "credential-garbage",
    credential_kubeconfig = "credential-kubeconfig",
    credential_managed_identity = "credential-managed-identity",
    credential_missing = "credential-missing",
    credential_providers = "credential-providers",
    credential_system = "credential-system",
    credential_token = "credential-token",
    edited_file_comes_back = "edited-file-comes-back",
    edited_file_is_in_the_plan = "edited-file-is-in-the-plan",
    everything = "everything",
    file_of_nobody = "file-of-nobody",
    file_with_the_rights_of_another = "file-with-the-rights-of-another",
    files = "files",
    five_generations_are_kept = "five-generations-are-kept",
    host_name = "host-name",
    huge_pages = "huge-pages",
    image_without_the_version = "image-without-the-version",
    invalid = "invalid",
    kernel_modules_and_arguments = "kernel-modules-and-arguments",
    kubelet_configuration = "kubelet-configuration",
    kubelet_flag_of_kiln = "kubelet-flag-of-kiln",
    kubelet_flags = "kubelet-flags",
    kubelet_labels_and_taints = "kubelet-labels-and-taints",
    labels_are_asked_for = "labels-are-asked-for",
    limits = "limits",
    lower_generation = "lower-generation",
    minimal = "minimal",
    network_bridge = "network-bridge",
    newer_minor = "newer-minor",
    not_json = "not-json",
    paused = "paused",
    proxy = "proxy",
    registries = "registries",
    removed_file_is_restored = "removed-file-is-restored",
    rollback = "rollback",
    rollback_to_a_number = "rollback-to-a-number",
    rollback_with_nothing_before = "rollback-with-nothing-before",
    same_document_twice = "same-document-twice",
    same_number_other_content = "same-number-other-content",
    secret_in_the_document = "secret-in-the-document",
    signature = "signature",
    signature_keys_unreadable = "signature-keys-unreadable",
    standard_input = "standard-input",
    state_that_cannot_be_read = "state-that-cannot-be-read",
    status_as_json = "status-as-json",
    status_of_nothing = "status-of-nothing",
    swap = "swap",
    sysctl = "sysctl",
    temporary_disk = "temporary-disk",
    time = "time",
    units = "units",
    unknown_major = "unknown-major",
    up_to_reload = "up-to-reload",
    update_in_place = "update-in-place",
    update_that_needs_the_cluster = "update-that-needs-the-cluster",
    usage = "usage",
    users = "users",
}

#[test]
fn every_folder_is_a_case() {
    assert_eq!(names(Needs::Folder), LISTED);
}
