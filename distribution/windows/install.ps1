# Copyright The otelcol-retina Authors
# SPDX-License-Identifier: Apache-2.0

<#
.SYNOPSIS
Installs otelcol-retina as a Windows service, or brings an installed one up to date.

.DESCRIPTION
Copies the program and, unless there is one already, the configuration; registers
the event log source and the service, which runs as LocalSystem, begins with
Windows and is restarted when it fails; starts it.

.EXAMPLE
.\install.ps1 -Binary .\otelcol-retina-amd64.exe
#>

#Requires -RunAsAdministrator
#Requires -Version 5.1

[CmdletBinding()]
param(
    # The program.
    [string] $Binary = (Join-Path $PSScriptRoot 'otelcol-retina.exe'),
    # The configuration to begin with.
    [string] $Config = (Join-Path $PSScriptRoot 'config.yaml'),
    # Where the program goes.
    [string] $InstallDir = (Join-Path $env:ProgramFiles 'otelcol-retina'),
    # Where the configuration goes.
    [string] $ConfigDir = (Join-Path $env:ProgramData 'otelcol-retina'),
    # The name of the service and of the event log source.
    [string] $ServiceName = 'otelcol-retina',
    # Install, and leave the service stopped.
    [switch] $NoStart
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

# Runs a program and stops at its failure, which PowerShell by itself does not.
function Invoke-Program {
    param([string] $Path, [string[]] $Arguments)
    $output = & $Path @Arguments 2>&1 | Out-String
    if ($LASTEXITCODE -ne 0) {
        throw "$Path $($Arguments -join ' ') failed with exit code ${LASTEXITCODE}: $output"
    }
}

if (-not (Test-Path -LiteralPath $Binary -PathType Leaf)) {
    throw "There is no program at $Binary; give its path with -Binary"
}

$program = Join-Path $InstallDir 'otelcol-retina.exe'
$configFile = Join-Path $ConfigDir 'config.yaml'

$service = Get-Service -Name $ServiceName -ErrorAction SilentlyContinue
if ($service -and $service.Status -ne 'Stopped') {
    Write-Host "Stopping the service $ServiceName"
    Stop-Service -Name $ServiceName
    $service.WaitForStatus('Stopped', [TimeSpan]::FromSeconds(60))
}

New-Item -ItemType Directory -Force -Path $InstallDir, $ConfigDir | Out-Null
Copy-Item -LiteralPath $Binary -Destination $program -Force
if (Test-Path -LiteralPath $configFile) {
    Write-Host "Keeping the configuration $configFile"
} else {
    Copy-Item -LiteralPath $Config -Destination $configFile
}

# A service that can't start says why in the event log only: better here and now.
Invoke-Program $program @('validate', '--config', $configFile)

# The event log source. The collector's messages have the ids 1 to 3, for which
# EventCreate.exe has the texts.
$source = "HKLM:\SYSTEM\CurrentControlSet\Services\EventLog\Application\$ServiceName"
New-Item -Path $source -Force | Out-Null
New-ItemProperty -Path $source -Name 'CustomSource' -Value 1 -PropertyType DWord -Force | Out-Null
New-ItemProperty -Path $source -Name 'EventMessageFile' -Value '%SystemRoot%\System32\EventCreate.exe' -PropertyType ExpandString -Force | Out-Null
New-ItemProperty -Path $source -Name 'TypesSupported' -Value 7 -PropertyType DWord -Force | Out-Null

$commandLine = "`"$program`" --config `"$configFile`""
if ($service) {
    # An installation of the same name may have been elsewhere.
    Set-ItemProperty -Path "HKLM:\SYSTEM\CurrentControlSet\Services\$ServiceName" -Name 'ImagePath' -Value $commandLine
} else {
    New-Service -Name $ServiceName -BinaryPathName $commandLine -DisplayName 'otelcol-retina' `
        -Description 'OpenTelemetry Collector with the network counters of every pod' -StartupType Automatic | Out-Null
}

# Restart after 5 s, 30 s, then every minute; begin anew after a day without failure.
# The flag is for an end with an error, which by itself is no failure to Windows.
Invoke-Program 'sc.exe' @('failure', $ServiceName, 'reset=', '86400', 'actions=', 'restart/5000/restart/30000/restart/60000')
Invoke-Program 'sc.exe' @('failureflag', $ServiceName, '1')

if ($NoStart) {
    Write-Host "Installed the service $ServiceName; start it with Start-Service $ServiceName"
    return
}
Start-Service -Name $ServiceName
Write-Host "The service $ServiceName runs. Configuration: $configFile"
Write-Host "Messages: Get-WinEvent -ProviderName $ServiceName -MaxEvents 20 | Format-List TimeCreated, LevelDisplayName, Message"
