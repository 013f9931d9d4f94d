# As in the Debian package's postinst. After the transaction, so that files of the old version are gone.
/usr/bin/kilnd enable --refresh
