# Copyright The otelcol-retina Authors
# SPDX-License-Identifier: Apache-2.0

<#
.SYNOPSIS
Installs otelcol-retina as a Windows service, or brings an installed one up to date.

.DESCRIPTION
Asks the program whether it takes the configuration, with the service's own
environment, before it changes a service that runs. Copies the program and, unless
there is one already, the configuration, which only administrators can then read
and change; registers the event log source and the service, which runs as
LocalSystem, begins with Windows and is restarted when it fails; starts it.

.EXAMPLE
.\install.ps1
#>

#Requires -RunAsAdministrator
#Requires -Version 5.1

[CmdletBinding()]
param(
    # The program. A release has it in the directory above this one.
    [string] $Binary = (Join-Path $PSScriptRoot '..\otelcol-retina.exe'),
    # The configuration to begin with.
    [string] $Config = (Join-Path $PSScriptRoot 'config.yaml'),
    # Where the program goes. A directory elsewhere than below Program Files or
    # ProgramData must be one that only administrators can change.
    [string] $InstallDir = (Join-Path $env:ProgramFiles 'otelcol-retina'),
    # Where the configuration goes: a directory that is made the administrators' own.
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
    # Or Windows PowerShell stops at the first line of a program's standard error.
    $ErrorActionPreference = 'Continue'
    $output = & $Path @Arguments 2>&1 | ForEach-Object { "$_" } | Out-String
    if ($LASTEXITCODE -ne 0) {
        throw "$Path $($Arguments -join ' ') failed with exit code ${LASTEXITCODE}: $output"
    }
}

# Stops unless a file or directory is the administrators' or LocalSystem's own. An
# owner can always give himself the rights to change what he owns.
function Assert-Owner {
    param([string] $Path)
    if ((Get-Item -LiteralPath $Path -Force).Attributes -band [IO.FileAttributes]::ReparsePoint) {
        throw "$Path leads elsewhere: LocalSystem would use what is there. Remove it"
    }
    $owner = (Get-Acl -LiteralPath $Path).GetOwner([Security.Principal.SecurityIdentifier]).Value
    if ($owner -notin 'S-1-5-32-544', 'S-1-5-18') {
        throw "$Path is owned by $owner, not by Administrators or SYSTEM: LocalSystem would do what it says. Look at it, then remove it or make it yours: takeown /A /F `"$Path`""
    }
}

# Makes a directory that only administrators and LocalSystem can read and change,
# with all that is in it. Any user can make directories below ProgramData, and files
# in those that others made there: what was not made by an administrator is refused.
function Protect-Directory {
    param([string] $Path)
    New-Item -ItemType Directory -Force -Path $Path | Out-Null
    Assert-Owner $Path
    $acl = New-Object Security.AccessControl.DirectorySecurity
    # Owned by Administrators; nothing inherited; all rights for SYSTEM and Administrators.
    $acl.SetSecurityDescriptorSddlForm('O:BAG:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)')
    Set-Acl -LiteralPath $Path -AclObject $acl
    # After that nobody can add to what is looked at here.
    foreach ($item in Get-ChildItem -LiteralPath $Path -Recurse -Force) {
        Assert-Owner $item.FullName
        Invoke-Program 'icacls.exe' @($item.FullName, '/reset', '/Q')
    }
}

# Stops unless the program takes the configuration with the variables that Windows
# gives to the service: those in the registry value Environment of its key. Here
# they are over this console's, which has its own back afterwards.
function Test-Configuration {
    param([string] $Path, [string] $ServiceKey)
    $before = @{}
    try {
        if (Test-Path -LiteralPath $ServiceKey) {
            foreach ($variable in (Get-Item -LiteralPath $ServiceKey).GetValue('Environment')) {
                $name, $value = $variable -split '=', 2
                $before[$name] = [Environment]::GetEnvironmentVariable($name)
                [Environment]::SetEnvironmentVariable($name, $value)
            }
        }
        Invoke-Program $Binary @('validate', '--config', $Path)
    } finally {
        foreach ($name in $before.Keys) {
            [Environment]::SetEnvironmentVariable($name, $before[$name])
        }
    }
}

if (-not (Test-Path -LiteralPath $Binary -PathType Leaf)) {
    throw "There is no program at $Binary; give its path with -Binary"
}
# Without a directory it would be looked for in PATH, and the service has no console
# whose directory a path could begin at.
$Binary = (Get-Item -LiteralPath $Binary).FullName
$InstallDir = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($InstallDir)
$ConfigDir = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($ConfigDir)

$program = Join-Path $InstallDir 'otelcol-retina.exe'
$configFile = Join-Path $ConfigDir 'config.yaml'
$serviceKey = "HKLM:\SYSTEM\CurrentControlSet\Services\$ServiceName"

Protect-Directory $ConfigDir
if ($InstallDir.StartsWith("$env:ProgramData\", [StringComparison]::OrdinalIgnoreCase)) {
    Protect-Directory $InstallDir
} else {
    New-Item -ItemType Directory -Force -Path $InstallDir | Out-Null
}

# Before the service is touched: one that runs goes on with what it has, and one that
# can't start says why in the event log only.
if (Test-Path -LiteralPath $configFile) {
    Write-Host "Keeping the configuration $configFile"
    Test-Configuration $configFile $serviceKey
} else {
    Test-Configuration $Config $serviceKey
    Copy-Item -LiteralPath $Config -Destination $configFile
}

$service = Get-Service -Name $ServiceName -ErrorAction SilentlyContinue
if ($service -and $service.Status -ne 'Stopped') {
    Write-Host "Stopping the service $ServiceName"
    Stop-Service -Name $ServiceName
    $service.WaitForStatus('Stopped', [TimeSpan]::FromSeconds(60))
}
Copy-Item -LiteralPath $Binary -Destination $program -Force

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
    Set-ItemProperty -Path $serviceKey -Name 'ImagePath' -Value $commandLine
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
