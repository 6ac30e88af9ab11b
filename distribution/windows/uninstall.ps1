# Copyright The otelcol-retina Authors
# SPDX-License-Identifier: Apache-2.0

<#
.SYNOPSIS
Removes what install.ps1 made: the service, the event log source and the program,
and with -Purge the configuration. What is already gone is no error.

.EXAMPLE
.\uninstall.ps1 -Purge
#>

#Requires -RunAsAdministrator
#Requires -Version 5.1

[CmdletBinding()]
param(
    [string] $InstallDir = (Join-Path $env:ProgramFiles 'otelcol-retina'),
    [string] $ConfigDir = (Join-Path $env:ProgramData 'otelcol-retina'),
    [string] $ServiceName = 'otelcol-retina',
    # Remove the configuration, too.
    [switch] $Purge
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$service = Get-Service -Name $ServiceName -ErrorAction SilentlyContinue
if ($service) {
    if ($service.Status -ne 'Stopped') {
        Stop-Service -Name $ServiceName
        $service.WaitForStatus('Stopped', [TimeSpan]::FromSeconds(60))
    }
    # Remove-Service is not in Windows PowerShell 5.1.
    $output = & sc.exe delete $ServiceName 2>&1 | Out-String
    if ($LASTEXITCODE -ne 0) {
        throw "sc.exe delete $ServiceName failed with exit code ${LASTEXITCODE}: $output"
    }
}

$source = "HKLM:\SYSTEM\CurrentControlSet\Services\EventLog\Application\$ServiceName"
if (Test-Path -LiteralPath $source) {
    Remove-Item -LiteralPath $source -Recurse
}

# The program by its name: nothing else in the directory is ours to remove.
$program = Join-Path $InstallDir 'otelcol-retina.exe'
if (Test-Path -LiteralPath $program) {
    Remove-Item -LiteralPath $program
}
if ((Test-Path -LiteralPath $InstallDir) -and -not (Get-ChildItem -LiteralPath $InstallDir -Force)) {
    Remove-Item -LiteralPath $InstallDir
}

$configFile = Join-Path $ConfigDir 'config.yaml'
if ($Purge) {
    if (Test-Path -LiteralPath $configFile) {
        Remove-Item -LiteralPath $configFile
    }
    if ((Test-Path -LiteralPath $ConfigDir) -and -not (Get-ChildItem -LiteralPath $ConfigDir -Force)) {
        Remove-Item -LiteralPath $ConfigDir
    }
} elseif (Test-Path -LiteralPath $configFile) {
    Write-Host "The configuration stays: $configFile (remove it with -Purge)"
}
Write-Host "Removed the service $ServiceName"
