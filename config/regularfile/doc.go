// Package regularfile reads small files that an operator has named: secrets, certificates and keys. A pipe, a device or a directory is
// an error and no hang. It looks at neither mode nor owner: the caller gets the FileInfo, and decides.
package regularfile
