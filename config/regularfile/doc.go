// Package regularfile reads small files that an operator has named: secrets, certificates and keys.
//
// It never writes, and looks at neither mode nor owner: the caller gets the FileInfo, and decides. No error quotes what is in it.
//
// Read opens the file, looks at what it has opened, and reads up to a limit. So a pipe, a device or a directory is an error and no hang,
// and nobody can exchange the file between the look and the reading.
package regularfile
