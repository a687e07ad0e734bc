// Package regularfile reads small files that an operator has named: secrets, certificates and keys. A pipe, a device or a directory is
// an error and no hang. It judges neither mode nor owner: the caller gets the mode, and decides.
package regularfile
